"""A server that answers with the pattern of the route that it finds: routers.py KIND PATTERNS,
where PATTERNS is a JSON array in the syntax of http.ServeMux, the closest ones first."""
import json
import re
import socket
import sys
import unicodedata

kind, routes = sys.argv[1], []
for name in json.loads(sys.argv[2]):
    method, _, path = name.rpartition(" ")
    routes.append((name, method, path))


def table(flags):
    def regex(path):
        parts = [".*" if p.endswith("...}") else "[^/]+" if p.startswith("{") else re.escape(p) for p in path.split("/")]
        return "/".join(parts) + (".*" if path.endswith("/") else "") + "/?"
    return [(n, m, re.compile(regex(p), flags)) for n, m, p in routes]


def finder(flags, read=lambda path: path):
    rows = table(flags)

    def find(method, path):
        method = "GET" if method == "HEAD" else method
        path = read(path)
        return next((n for n, m, p in rows if m in ("", method) and p.fullmatch(path)), "-")
    return find


def wsgi(find):
    def app(environ, start):
        path = environ["PATH_INFO"].encode("latin-1").decode("utf-8", "replace")
        start("200 OK", [("X-Route", find(environ["REQUEST_METHOD"], path)), ("Content-Length", "0")])
        return [b""]
    return app


def flask():
    from flask import Flask
    app = Flask("routes")
    for i, (name, method, path) in enumerate(routes):
        path = re.sub(r"\{(\w+)\.\.\.\}", r"<path:\1>", path)
        path = re.sub(r"\{(\w+)\}", r"<\1>", path)
        rules = [path, path + "<path:rest>"] if path.endswith("/") else [path]
        for j, rule in enumerate(rules):
            app.add_url_rule(rule, f"r{i}_{j}", lambda n=name, **_: ("", 200, {"X-Route": n}), methods=[method or m for m in ("GET", "POST", "PUT", "DELETE", "PATCH")])
    return app


def serve_wsgi(app):
    from wsgiref.simple_server import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log_message(self, *_):
            pass
    server = make_server("127.0.0.1", 0, app, handler_class=Quiet)
    print(server.server_port, flush=True)
    server.serve_forever()


def serve_asgi(find):
    import uvicorn

    async def app(scope, receive, send):
        if scope["type"] != "http":
            return
        route = find(scope["method"], scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-route", route.encode()), (b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(128)
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(app, log_level="error", http="h11", lifespan="off")
    uvicorn.Server(config).run(sockets=[listener])


if kind == "flask":
    serve_wsgi(flask())
elif kind == "asgi":
    serve_asgi(finder(re.DOTALL))
else:
    serve_wsgi(wsgi({
        "wsgi": finder(re.DOTALL),
        "anycase": finder(re.DOTALL | re.IGNORECASE),
        "casefold": finder(re.DOTALL, str.casefold),
        "stripped": finder(re.DOTALL | re.IGNORECASE, str.strip),
        "compatible": finder(re.DOTALL, lambda path: unicodedata.normalize("NFKC", path).casefold()),
    }[kind]))
