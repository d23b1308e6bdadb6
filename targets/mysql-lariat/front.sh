front() { "{{ program }}" serve lariat.toml & }
