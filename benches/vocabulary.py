"""Gives Python's tiktoken the vocabulary that the engine was built with, since the bench runs without a network.

`speed ranks` writes the tokens in hexadecimal; here they become the file that tiktoken would have downloaded, in the
place where it looks first. tiktoken checks the file's SHA-256, so another vocabulary would be refused.
"""

import base64
import hashlib
import pathlib
import sys

URL = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"

if __name__ == "__main__":
    ranks, cache = sys.argv[1], pathlib.Path(sys.argv[2])
    cache.mkdir(parents=True, exist_ok=True)
    with open(ranks, encoding="ascii") as file, open(cache / hashlib.sha1(URL.encode()).hexdigest(), "wb") as out:
        for rank, line in enumerate(file):
            out.write(base64.b64encode(bytes.fromhex(line)) + f" {rank}\n".encode())
