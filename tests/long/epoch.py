"""epoch.py FILE: sends the content of FILE to each client of a free port of the loopback address, which it prints."""
import socketserver
import sys


class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        with open(sys.argv[1], "rb") as file:
            self.request.sendall(file.read())


with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
    print(server.server_address[1], flush=True)
    server.serve_forever()
