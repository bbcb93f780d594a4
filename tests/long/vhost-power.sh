#!/bin/bash
# A virtual machine with a vhost-user-blk disk in write-back, ext4 and SQLite: the server is killed under it, the power of both is cut, NITRO_ROUNDS times (2).
export FRONT_END=vhost
. "$(dirname "$0")/vm.sh"
