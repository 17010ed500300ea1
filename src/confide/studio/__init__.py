"""The studio: the verbs of the library as pages in the browser, served on this machine to this machine alone.

- :mod:`.door`: who may come in, and what no answer goes without: token, session, Host and Origin, headers;
- :mod:`.opened_folder`: the folder that was opened, and nothing outside it;
- :mod:`.pages`: how a page is made; :mod:`.application` puts pages and interface together; :mod:`.serving` serves them;
- :mod:`.table_view`, :mod:`.explorer`: the release explorer;
- :mod:`.board_pages`: the trade-off board;
- :mod:`.jobs`, :mod:`.cockpit`: verbs that take long, and the release cockpit;
- :mod:`.doctor`: the data doctor, from an office's own files to a spec;
- :mod:`confide.lab.studio`: the risk laboratory, and methods compared.

Nothing is computed here that the library does not compute. Needs the extra ``studio``, which is imported when
``confide studio`` is called, and not before. For its users: ``docs/studio.md``.
"""
