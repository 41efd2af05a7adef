# Source this file. It looks up source packages in a separate index, so that the system's apt configuration stays as it
# is.
#
# with_own_apt FOLDER LINES COMMAND...: runs an apt command whose index and cache are in FOLDER and whose sources are LINES,
# with KEYRING in them standing for the keys of Debian's archive.

with_own_apt() {
  local apt=$1 lines=$2
  shift 2
  mkdir -p "$apt/lists/partial" "$apt/archives/partial"
  echo "${lines//KEYRING/[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]}" >"$apt/sources.list"
  cat >"$apt/apt.conf" <<END
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "$apt/lists";
Dir::Cache "$apt";
APT::Sandbox::User "$(id -un)";
Acquire::Languages "none";
END
  APT_CONFIG=$apt/apt.conf "$@"
}
