# The first terminator dies as in a crash of its host: nothing of it ends by itself.
cd "{{ folder }}" || exit 1
supervisor=$(cat node1.pid)
workers=$(cat "/proc/$supervisor/task/$supervisor/children")
kill -9 $supervisor $workers
