# Discovery and login, as docs and README tell an operator to do it.

# How iscsiadm ends: when the target does not believe the host (ISCSI_ERR_LOGIN_AUTH_FAILED), and
# when the host does not believe the target (ISCSI_ERR_FATAL_LOGIN).
host_refused=24
target_refused=19

discovery() { iscsiadm -m discoverydb -t sendtargets -p "$1" "${@:2}"; }
node() { iscsiadm -m node -T "$target" -p "$1" "${@:2}"; }

# What an operator writes into iscsid.conf; each record of a target is made from it. Then the
# times after which a lost path is given up: these tests have little patience.
configure_initiator() {
  cat >>/etc/iscsi/iscsid.conf <<'END'
discovery.sendtargets.auth.authmethod = CHAP
discovery.sendtargets.auth.username = guest
discovery.sendtargets.auth.password = guest-secret-0001
discovery.sendtargets.auth.username_in = drystone
discovery.sendtargets.auth.password_in = target-secret-02
node.session.auth.authmethod = CHAP
node.session.auth.chap_algs = SHA3-256,SHA256,SHA1,MD5
node.session.auth.username = guest
node.session.auth.password = guest-secret-0001
node.session.auth.username_in = drystone
node.session.auth.password_in = target-secret-02
node.session.timeo.replacement_timeout = 5
node.conn[0].timeo.noop_out_interval = 3
node.conn[0].timeo.noop_out_timeout = 5
END
}

discover() {
  local portal listed
  say "discovery, by each portal; with a wrong secret none"
  discovery "${portals[0]}" -o new >/dev/null
  discovery "${portals[0]}" -o update -n discovery.sendtargets.auth.password -v wrong-secret-0003
  fails_with $host_refused discovery "${portals[0]}" --discover
  discovery "${portals[0]}" -o delete
  for portal in "${portals[@]}"; do
    listed=$(iscsiadm -m discovery -t sendtargets -p "$portal") || die "discovery by $portal"
    [ "$(grep -c " $target\$" <<<"$listed")" = 2 ] || die "discovery by $portal found: $listed"
  done
}

refuse_wrong_secrets() {
  local portal=${portals[0]}
  say "login with a wrong secret of the host, then of the target"
  must node "$portal" -o update -n node.session.auth.password -v wrong-secret-0003
  fails_with $host_refused node "$portal" --login
  must node "$portal" -o update -n node.session.auth.password -v guest-secret-0001
  must node "$portal" -o update -n node.session.auth.password_in -v wrong-secret-0003
  fails_with $target_refused node "$portal" --login
  must node "$portal" -o update -n node.session.auth.password_in -v target-secret-02
}

# The second path has digests, the first has none.
login() {
  local key
  say "login over both paths"
  for key in HeaderDigest DataDigest; do
    must node "${portals[1]}" -o update -n "node.conn[0].iscsi.$key" -v CRC32C
  done
  must iscsiadm -m node -T "$target" --login
  within 60 has_disks 6
  prints 'HeaderDigest: CRC32C' iscsiadm -m session -P 2
  prints 'DataDigest: CRC32C' iscsiadm -m session -P 2
  prints 'HeaderDigest: None' iscsiadm -m session -P 2
  lsscsi -ts
}

logout() {
  say "logout"
  must iscsiadm -m node -T "$target" --logout
  fails_with 21 iscsiadm -m session # no objects found
  [ -z "$(lsscsi)" ] || die "disks are left: $(lsscsi)"
}
