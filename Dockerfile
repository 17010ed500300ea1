# Confide in a container: docker build -t confide . && docker run --rm -v "$PWD":/work confide demo
# Records, ledger and releases lie in /work, which you mount; nothing is kept in the image.
# `make pins` writes the digest of the base image beside its tag.
FROM python:3.12-slim

WORKDIR /opt/confide
# Every file that is installed is one whose hash is in the lock; Confide is built here, by what the lock has installed.
COPY locks/image.txt ./locks/
RUN python -m pip install --no-cache-dir --require-hashes -r locks/image.txt
COPY pyproject.toml README.md LICENSE ./
COPY docs/proofs ./docs/proofs
COPY docs/concepts ./docs/concepts
COPY src ./src
RUN python -m pip install --no-cache-dir --no-deps --no-build-isolation . \
    && useradd --create-home --uid 1000 curator

# Not as root: files of the confidential zone belong to whoever runs it. To match a user of yours: --user "$(id -u)"
USER curator
WORKDIR /work
ENTRYPOINT ["confide"]
CMD ["--help"]
