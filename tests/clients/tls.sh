#!/bin/bash
# TLS: accepted with the right certificate authority, refused without, required when so configured.
. "$(dirname "$0")/lib.sh"
real_volume 8
pki=$WORK/pki
mkdir "$pki"
(
  cd "$pki"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=test-ca -keyout ca-key.pem -out ca-cert.pem
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost -keyout server-key.pem -out server.csr
  printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\n' >ext
  openssl x509 -req -in server.csr -CA ca-cert.pem -CAkey ca-key.pem -CAcreateserial -days 2 -extfile ext -out server-cert.pem
) 2>/dev/null
mkdir "$WORK/client" "$WORK/stranger"
cp "$pki/ca-cert.pem" "$WORK/client/"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=stranger -keyout /dev/null \
  -out "$WORK/stranger/ca-cert.pem" 2>/dev/null
serve --tls required --tls-cert "$pki/server-cert.pem" --tls-key "$pki/server-key.pem" --listen tcp:127.0.0.1:0
port=$(grep -oE 'nbds?://127\.0\.0\.1:[0-9]+' "$WORK/log" | grep -oE '[0-9]+$' | head -1)
secure="nbds://localhost:$port/vm?tls-certificates=$WORK/client"
nbdinfo "$secure" | grep -q 'TLS'
nbdcopy "$secure" "$WORK/out.img"
cmp "$WORK/vm.img" "$WORK/out.img"
qemu-img info --object "tls-creds-x509,id=t,dir=$WORK/client,endpoint=client" \
  --image-opts "driver=nbd,host=localhost,port=$port,export=vm,tls-creds=t" | grep -q 'virtual size: 8 MiB'
if nbdinfo "nbd://localhost:$port/vm"; then echo "plain text was accepted"; exit 1; fi
if nbdinfo "nbds://localhost:$port/vm?tls-certificates=$WORK/stranger"; then echo "a stranger's authority was accepted"; exit 1; fi
stop
