"""Lets requests through whose access token covers what they ask for. Wraps any ASGI application."""

import asyncio
import json
import logging
import os
import re
import threading
import time
import urllib.parse
import urllib.request

import jwt

RESOURCE = os.environ["RESOURCE"]  # exactly the URL that clients dial
ISSUER = os.environ["ISSUER"]  # exactly as its metadata spells it

# What each tool needs. A tool that is not named here is refused.
TOOLS = {"list_notes": ["notes:read"], "add_note": ["notes:write"]}
SCOPES = sorted({scope for needed in TOOLS.values() for scope in needed})

_url = urllib.parse.urlsplit(RESOURCE)
PATH = _url.path or "/"
# The well-known part stands between the host and the path (RFC 9728 section 3.1).
METADATA_PATH = "/.well-known/oauth-protected-resource" + ("" if PATH == "/" else PATH)
METADATA_URL = f"{_url.scheme}://{_url.netloc}{METADATA_PATH}"
METADATA = {"resource": RESOURCE, "authorization_servers": [ISSUER],
            "scopes_supported": SCOPES, "bearer_methods_supported": ["header"]}
MAX_BODY = 1 << 20  # bytes


class Keys:
    """The issuer's keys, by id.

    They are kept for ten minutes. A token that names an unknown key has them fetched once
    more, but not within 30 seconds of the last try: anybody can name a key. PyJWKClient
    fetches for each such token, and forgets the good keys when that fails.
    """

    def __init__(self, url):
        self._url, self._lock = url, threading.Lock()
        self._keys, self._fetched, self._tried = {}, None, None

    def get(self, kid):
        if not self._young(self._fetched, 600) or kid not in self._keys:
            with self._lock:
                if not self._young(self._tried, 30 if self._keys else 5):
                    self._fetch()
        if not self._young(self._fetched, 86400):
            raise OSError("there are no keys of the issuer, or only old ones")
        if kid in self._keys:
            return self._keys[kid]
        if self._fetched < self._tried:
            raise OSError("the last try failed, so the key may exist")
        raise jwt.InvalidTokenError("unknown key")

    @staticmethod
    def _young(since, seconds):
        return since is not None and time.monotonic() - since < seconds

    def _fetch(self):
        self._tried = time.monotonic()
        try:
            with urllib.request.urlopen(self._url, timeout=5) as answer:
                keys = jwt.PyJWKSet.from_dict(json.loads(answer.read(MAX_BODY))).keys
            self._keys = {key.key_id: key.key for key in keys if key.key_id}
            self._fetched = time.monotonic()
        except Exception as error:  # whatever is wrong with the answer
            logging.error("the issuer's keys cannot be fetched: %r", error)


KEYS = Keys(ISSUER + "/jwks.json")
# The signature of ES256 has 64 bytes, and one spelling: its last character holds two bits.
JWS = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{85}[AQgw]")


def verify(token):
    """Returns the claims of a token (RFC 9068 section 4).

    Raises jwt.InvalidTokenError when it is the fault of the token, OSError when not.
    """
    if len(token) > 8192 or not JWS.fullmatch(token):
        raise jwt.InvalidTokenError("no JWS")
    header = jwt.get_unverified_header(token)
    # No ID token, no assertion, no keys or extensions of its own: PyJWT checks none of it.
    if str(header.get("typ")).lower() != "at+jwt" or header.keys() - {"alg", "kid", "typ"}:
        raise jwt.InvalidTokenError("not an access token")
    claims = jwt.decode(
        token,
        KEYS.get(header.get("kid")),
        algorithms=["ES256"],  # never what the token says
        issuer=ISSUER,
        audience=RESOURCE,  # issued for this server
        options={"require": ["iss", "aud", "exp", "iat", "sub", "client_id"]},
        leeway=10,  # seconds that the clocks may differ
    )
    for name in ("sub", "client_id", "scope"):
        if not isinstance(claims.setdefault(name, ""), str) or not (claims[name] or name == "scope"):
            raise jwt.InvalidTokenError(f"{name} must be a string")
    if not claims["exp"] - claims["iat"] <= 86400:  # a TypeError unless both are numbers
        raise jwt.InvalidTokenError("lives for more than a day")
    if "cnf" in claims:
        raise jwt.InvalidTokenError("bound to a key, so no bearer token")
    return claims


class Refused(Exception):
    def __init__(self, status, error="", needed=SCOPES):
        self.status, self.headers = status, []
        if status == 401 or error:
            code = f'error="{error}", ' if error else ""
            challenge = f'Bearer {code}scope="{" ".join(needed)}", resource_metadata="{METADATA_URL}"'
            self.headers.append((b"www-authenticate", challenge.encode()))
        if status == 503:
            self.headers.append((b"retry-after", b"5"))


class Guard:
    """An ASGI application that serves the metadata and guards another application."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":
            raise ValueError("only HTTP is guarded")
        if scope["path"] == METADATA_PATH and scope["method"] == "GET":
            return await answer(send, 200, [(b"content-type", b"application/json")], json.dumps(METADATA).encode())
        try:
            claims = await authenticate(scope)
            body = await read(receive)
            if scope["method"] == "POST":
                body = authorize(claims, body)
        except Refused as refused:
            return await answer(send, refused.status, refused.headers, b"")
        dropped = (b"authorization", b"content-length", b"transfer-encoding")
        headers = [field for field in scope["headers"] if field[0].lower() not in dropped]
        headers.append((b"content-length", str(len(body)).encode()))
        replay = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def again():
            return next(replay, None) or await receive()

        await self.app({**scope, "headers": headers, "claims": claims}, again, send)


async def authenticate(scope):
    """Finds out who calls, before the body is read."""
    values = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
    if not values:
        raise Refused(401)
    token = re.fullmatch(rb"(?i:bearer) +([A-Za-z0-9._~+/-]+=*)", values[0])
    query = urllib.parse.parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    # A token in the URL ends up in logs (RFC 6750 section 5.3).
    if len(values) > 1 or not token or "access_token" in query:
        raise Refused(400, "invalid_request")
    try:
        return await asyncio.to_thread(verify, token[1].decode())  # it may have to fetch keys
    except OSError as error:
        logging.error("the issuer cannot be asked: %s", error)
        raise Refused(503) from None  # a client throws its token away at 401
    except Exception as error:  # PyJWT raises others than its own for some malformed tokens
        logging.info("refused: %r", error)
        raise Refused(401, "invalid_token") from None


def authorize(claims, body):
    """Judges the message and returns it as it was understood, so that no other parser reads another message."""
    try:
        message = json.loads(body)
        understood = json.dumps(message, allow_nan=False).encode()
    except (ValueError, RecursionError):
        raise Refused(400, "invalid_request") from None
    if not isinstance(message, dict):
        raise Refused(400, "invalid_request")
    if message.get("method") == "tools/call":
        params = message.get("params")
        name = params.get("name") if isinstance(params, dict) else None
        needed = TOOLS.get(name) if isinstance(name, str) else None
        if needed is None:
            raise Refused(403)
        if not set(needed) <= set(claims["scope"].split(" ")):
            raise Refused(403, "insufficient_scope", needed)
    return understood


async def read(receive):
    body, more = b"", True
    while more:
        event = await receive()
        body, more = body + event.get("body", b""), event.get("more_body", False)
        if len(body) > MAX_BODY:
            raise Refused(413)
    return body


async def answer(send, status, headers, body):
    headers = headers + [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
