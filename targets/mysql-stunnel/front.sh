front() { "{{ program }}" stunnel.conf & }
