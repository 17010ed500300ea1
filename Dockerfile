# Confide in a container: docker build -t confide . && docker run --rm -v "$PWD":/work confide demo
# Records, ledger and releases lie in /work, which you mount; nothing is kept in the image.
FROM python:3.12-slim

WORKDIR /opt/confide
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN python -m pip install --no-cache-dir -c constraints.txt ".[plots]" \
    && useradd --create-home --uid 1000 curator

# Not as root: files of the confidential zone belong to whoever runs it. To match a user of yours: --user "$(id -u)"
USER curator
WORKDIR /work
ENTRYPOINT ["confide"]
CMD ["--help"]
