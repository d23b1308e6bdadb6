# A token with the certificate's key, and the terminator that has it sign.
cd "{{ folder }}" || exit 1
umask 077
mkdir tokens
echo "directories.tokendir = $PWD/tokens" > softhsm2.conf
echo 123456 > pin
export SOFTHSM2_CONF="$PWD/softhsm2.conf"
softhsm2-util --init-token --free --label lab --so-pin 123456 --pin 123456 > token.log 2>&1 &&
    softhsm2-util --import "{{ certificates[0].key }}" --token lab --label key --id 01 --pin 123456 >> token.log 2>&1 ||
    { cat token.log >&2; exit 1; }
{% if is_root %}
# The process with the token's library has no rights of root.
chown -R 65534 tokens softhsm2.conf && chmod 755 . && chmod 700 tokens
{% endif %}
exec "{{ program }}" serve lariat.toml
