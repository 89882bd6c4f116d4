# Debian packages of programs that a script needs. .ci/run and test/ecs/cluster/stack.sh source this file.

# want COMMAND PACKAGES... notes the packages in the array missing, unless the command is there.
want() {
  local command=$1
  shift
  command -v "$command" >/dev/null || missing+=("$@")
}

# install_missing installs the packages of the array missing. It needs root, and Debian.
install_missing() {
  if [ ${#missing[@]} -eq 0 ]; then
    return 0
  fi
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "missing: ${missing[*]}; install them, or run this as root on Debian"
    return 1
  fi
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}
