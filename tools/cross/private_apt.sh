#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# apt-get with a list and folders of its own, so that nothing of the system's is changed: for sources, another release or another machine.
#   tools/cross/private_apt.sh FOLDER deb|deb-src RELEASE ARGUMENTS...    as in: ... deb-src bookworm source --download-only protobuf
# What is fetched lies in the folder that it is called in; apt checks its sum and who signed that.
folder=$1/$3-$2 type=$2 release=$3
shift 3
mkdir -p "$folder/parts" "$folder/lists/partial" "$folder/cache/archives/partial" && folder=$(cd "$folder" && pwd) || exit 1
# From where this machine has Debian from.
from=$(apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(COMPONENT)' 'Identifier: Packages' | sed -n 's/ Debian main$//p' | head -n 1)
[ -n "$from" ] || { echo "private_apt.sh: this machine's apt has no list of Debian: apt-get update makes it" >&2; exit 1; }
printf 'Types: %s\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n' "$type" "$from" "$release" >"$folder/parts/debian.sources"
cat >"$folder/apt.conf" <<END
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$folder/parts";
Dir::State::lists "$folder/lists";
Dir::State::status "/dev/null";
Dir::Cache "$folder/cache";
APT::Architectures { "amd64"; "arm64"; };
APT::Sandbox::User "$(id -un)";
END
APT_CONFIG=$folder/apt.conf
export APT_CONFIG
apt-get -q update && apt-get -q "$@"
