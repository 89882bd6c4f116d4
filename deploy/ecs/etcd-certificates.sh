#!/usr/bin/env bash
# Certificates of an etcd cluster of deploy/ecs/etcd.yaml. Needs openssl 3, and for "put" the AWS CLI.
#
#   etcd-certificates.sh make DIRECTORY DOMAIN   make an authority, certificates of the members a, b and c of DOMAIN, and one of clients
#   etcd-certificates.sh put DIRECTORY SECRETS   put them into Secrets Manager, under names that begin with SECRETS/, and print the ARNs
#
# With an authority in DIRECTORY, "make" renews the certificates alone. ca.key stays in DIRECTORY: "put" does not copy it.
set -euo pipefail
umask 077

usage() { sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
[ $# = 3 ] || usage
command=$1 dir=$2

# request ARGS runs "openssl req" for a P-256 key, without the extensions of openssl.cnf.
request() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -sha256 -config <(printf '[req]\ndistinguished_name=dn\n[dn]\n') "$@" 2>"$dir/openssl.log" ||
    { cat "$dir/openssl.log" >&2; return 1; }
}

# certificate NAME USE ARGS makes NAME.crt and NAME.key, for 825 days.
certificate() {
  local name=$1 use=$2
  shift 2
  request -CA "$dir/ca.crt" -CAkey "$dir/ca.key" -days 825 -subj "/CN=$name" -keyout "$dir/$name.key.new" -out "$dir/$name.crt.new" \
    -addext basicConstraints=critical,CA:FALSE -addext keyUsage=critical,digitalSignature -addext "extendedKeyUsage=$use" "$@"
  mv "$dir/$name.key.new" "$dir/$name.key"
  mv "$dir/$name.crt.new" "$dir/$name.crt"
}

make_all() {
  local domain=$1 member
  mkdir -p "$dir"
  if [ ! -e "$dir/ca.key" ]; then
    request -days 3650 -subj "/CN=etcd of $domain" -keyout "$dir/ca.key.new" -out "$dir/ca.crt" \
      -addext basicConstraints=critical,CA:TRUE,pathlen:0 -addext keyUsage=critical,keyCertSign,cRLSign
    mv "$dir/ca.key.new" "$dir/ca.key"
  fi
  for member in a b c; do
    # A member is a client of the others.
    certificate "$member" serverAuth,clientAuth -addext "subjectAltName=DNS:$member.$domain,DNS:localhost,IP:127.0.0.1"
  done
  certificate client clientAuth
  rm -f "$dir/openssl.log"
}

# secret NAME FILE puts a file into the secret NAME, makes the secret if there is none, and prints its ARN.
secret() {
  local arn
  if arn=$(aws secretsmanager describe-secret --secret-id "$1" --query ARN --output text 2>"$dir/aws.log"); then
    aws secretsmanager put-secret-value --secret-id "$arn" --secret-string "file://$2" --query ARN --output text
  elif grep -q ResourceNotFoundException "$dir/aws.log"; then
    aws secretsmanager create-secret --name "$1" --secret-string "file://$2" --query ARN --output text
  else
    cat "$dir/aws.log" >&2
    return 1
  fi
}

put_all() {
  local prefix=$1 member key ca certificate
  for member in a b c; do
    secret "$prefix/$member.crt" "$dir/$member.crt" >"$dir/aws.out"
    secret "$prefix/$member.key" "$dir/$member.key" >"$dir/aws.out"
  done
  ca=$(secret "$prefix/ca.crt" "$dir/ca.crt")
  certificate=$(secret "$prefix/client.crt" "$dir/client.crt")
  key=$(secret "$prefix/client.key" "$dir/client.key")
  rm -f "$dir/aws.log" "$dir/aws.out"
  printf '%s\n' "EtcdCaSecretArn=$ca" "EtcdCertSecretArn=$certificate" "EtcdKeySecretArn=$key"
}

case $command in
make) make_all "$3" ;;
put) put_all "$3" ;;
*) usage ;;
esac
