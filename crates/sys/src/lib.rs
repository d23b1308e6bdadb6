//! The only unsafe code: sockets, epoll, affinity, sandbox, signals.
