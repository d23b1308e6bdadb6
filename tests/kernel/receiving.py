"""Receives records of TLS that the kernel decrypts; prints how many calls that took, and which.

    receiving.py recv|splice MEBIBYTES

The keys are made up: no handshake is needed for what is counted. The sender is a process of its own,
whose records the kernel encrypts.
"""

import fcntl
import os
import socket
import struct
import sys

SOL_TLS, TLS_TX, TLS_RX, TCP_ULP = 282, 1, 2, 31
TLS_1_3, AES_128_GCM = 0x0304, 51
# struct tls12_crypto_info_aes_gcm_128: version, cipher, IV, key, salt, number of the next record.
INFO = struct.pack("=HH8s16s4s8s", TLS_1_3, AES_128_GCM, b"i" * 8, b"k" * 16, b"s" * 4, bytes(8))


def handed_over(end, direction):
    end.setsockopt(socket.IPPROTO_TCP, TCP_ULP, b"tls")
    end.setsockopt(SOL_TLS, direction, INFO)
    return end


def by_recv(end, length):
    """Into room for what Lariat reads at most at a time."""
    calls, room = 0, bytearray(256 << 10)
    while length > 0:
        length -= end.recv_into(room)
        calls += 1
    return calls


def by_splice(end, length):
    """Into a pipe that has room for as much, and that is emptied when it is full."""
    calls = 0
    out, into = os.pipe()
    room = fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, 256 << 10)
    sink = os.open("/dev/null", os.O_WRONLY)
    while length > 0:
        held = os.splice(end.fileno(), into, room)
        calls += 1
        length -= held
        while held > 0:
            held -= os.splice(out, sink, held)
    return calls


way, length = sys.argv[1], int(sys.argv[2]) << 20
listener = socket.create_server(("127.0.0.1", 0))
if os.fork() == 0:
    sender = handed_over(socket.create_connection(listener.getsockname()), TLS_TX)
    sender.sendall(bytes(length))
    sender.recv(1)
    os._exit(0)
receiver = handed_over(listener.accept()[0], TLS_RX)
print({"recv": by_recv, "splice": by_splice}[way](receiver, length))
