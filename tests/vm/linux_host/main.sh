# A Linux host and a drystone server with three disks and two portals: what an operator does with
# it from discovery to logout, and the bad days between. One boot, since emulation is slow.
cd /job || exit
for part in lib login commands reservations paths crash volumes; do
  # shellcheck source=/dev/null
  . "/job/$part.sh"
done

# What the kernel said since the last call. It may speak of lost connections and failed paths; of
# these it may not.
no_kernel_trouble() {
  local trouble='Buffer I/O error|critical|lost async|EXT4-fs (error|warning)'
  trouble+='|XFS .*([Ee]rror|orrupt|[Ss]hut)|BUG:|Oops|Call Trace|blocked for more'
  trouble+='|scsi .*(rejected|failed)|Invalid|not supported|alua.*(fail|unavail)'
  ! dmesg | grep -E "$trouble" || die "the kernel says what is above"
  dmesg --clear
}

dmesg --clear
must server start
configure_initiator
discover
refuse_wrong_secrets
login
ask
write_same_and_compare
reset_units
copy_between_units
sanitize
no_kernel_trouble
reserve
dmesg --clear # of each reservation conflict, which are errors to the kernel
start_multipath
make_filesystems
cut_and_heal_a_path
compare_files
give_space_back
verify_random_writes
reserve_for_good
end_under_load crash
reservation_is_kept
end_under_load stop
reservation_is_kept
clear_reservation
stop_multipath
logout
must server stop
copy_between_volumes
no_kernel_trouble
say "done"
