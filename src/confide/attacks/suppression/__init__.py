"""The audit of suppressed tables, whoever made them: what an attacker can work out, and whether that is too much.

Start with :mod:`confide.attacks.suppression.suppression_audit`. For users: ``docs/concepts/suppression.md``.
"""

from confide.attacks.suppression.audit_subject import AuditSubject, audit_suppression, read_subject
from confide.attacks.suppression.suppression_audit import Audit, Required, Suspect, audit

__all__ = ["Audit", "AuditSubject", "Required", "Suspect", "audit", "audit_suppression", "read_subject"]
