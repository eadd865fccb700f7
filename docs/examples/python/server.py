"""A protected notes server: python3 server.py

With the official SDK it is app = Guard(mcp.streamable_http_app()).
"""

import json
import os

import uvicorn

from guard import Guard, answer, read

NOTES = {}  # by subject


async def notes(scope, receive, send):
    if scope["type"] != "http":
        return
    if scope["method"] != "POST":
        return await answer(send, 405, [(b"allow", b"POST")], b"")
    message = json.loads(await read(receive))
    if "id" not in message:
        return await answer(send, 202, [], b"")
    reply = {"jsonrpc": "2.0", "id": message["id"], **respond(scope["claims"]["sub"], message)}
    await answer(send, 200, [(b"content-type", b"application/json")], json.dumps(reply).encode())


def respond(subject, message):
    method, params = message.get("method"), message.get("params") or {}
    if method == "initialize":
        return {"result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                           "serverInfo": {"name": "notes", "version": "1.0.0"}}}
    if method == "ping":
        return {"result": {}}
    if method == "tools/list":
        return {"result": {"tools": [
            {"name": "list_notes", "inputSchema": {"type": "object"}},
            {"name": "add_note", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}]}}
    if method != "tools/call":
        return {"error": {"code": -32601, "message": "There is no such method."}}
    own = NOTES.setdefault(subject, [])
    if params["name"] == "list_notes":
        return text("\n".join(own))
    own.append(str((params.get("arguments") or {}).get("text"))[:1000])
    del own[:-100]
    return text("added")


def text(words):
    return {"result": {"content": [{"type": "text", "text": words}]}}


app = Guard(notes)

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ.get("PORT", "9000")))
