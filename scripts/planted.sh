#!/usr/bin/env bash
# Plants mistakes, one at a time, and sees that the test meant for it fails.
#
#   scripts/planted.sh [PART PARTS]
#
# Of so many parts it plants one: beside the whole of the tests (scripts/test.sh), which tell what fails by itself.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# So many tests run at once: more would fail by the clock, and not by the mistake.
AT_ONCE=2
# A test that a mistake keeps from ending has noticed it.
LIMIT_SECONDS=300

# The mistake, where the test is, and its name.
planted='
NoSequence     --lib        journal::tests::damage::batches_of_a_former_lap
KeepEnded      --lib        cache::tests::a_write_ends_what
KeepEnded      --test=array cached::a_block_whose_checksum
LateKeep       --lib        cache::tests::what_was_read_beside_a_write
CountTouches   --lib        cache::tests::blocks_that_are_read_twice
CountTouches   --lib        cache::tests::blocks_of_which_two_reads
CountTouches   --lib        cache::tests::blocks_that_are_read_in_pieces
CountFetched   --lib        cache::tests::what_is_fetched_ahead
KeepPoison     --test=array cached::a_block_that_nobody_has
LateCredit     --lib        raid::tests::writes::a_disk_that_goes_out_beside_a_write
OldJournal     --lib        journal::tests::damage::an_old_copy_of_a_holder
OldJournal     --test=array journal::an_old_copy_of_the_journal
OldDates       --lib        membership::tests::choosing::who_is_out_lacks_all
BlindAnew      --lib        engine::gather::tests::a_column_that_no_map
MembersAlone   --lib        core::sets::tests::a_page_that_only
TakeMaps       --test=array full::a_rebuild_on_an_array
HastySlot      --lib        checkpoint::slots::tests::want_of_memory
KeepUnread     --test=array checkpoints::a_checkpoint_that_a_start
OldAnchor      --test=array checkpoints::a_newest_checkpoint
KeepAreas      --test=array membership::a_disk_of_another_life
NoAnchor       --lib        journal::tests::damage::a_disk_that_joins_when_all_was_trimmed
BlindRun       --lib        upkeep::refresh::tests::a_run_in_which
UnheardFree    --lib        upkeep::refresh::tests::what_was_freed_since
HastyLoss      --lib        upkeep::refresh::tests::what_a_disk_has_that_is_silent
HastyHold      --lib        upkeep::refresh::tests::nothing_is_taken_from_disks
OldAside       --lib        upkeep::refresh::tests::what_the_journal_has
HastySure      --lib        upkeep::refresh::tests::what_the_journal_got
OldProof       --lib        upkeep::refresh::tests::a_stripe_is_looked_up_anew
EarlyPromotion --lib        raid::set::tests::what_a_replacement_misses_while_its_promotion
ForgetLacking  --lib        raid::set::tests::a_replacement_takes_over_when_it_lacks_nothing
EarlyLeave     --lib        raid::locks::tests::a_chunk_that_was_left_is_in_use
ForgetReaders  --lib        engine::commit::tests::what_somebody_reads_is_kept
EarlyParity    --lib        raid::tests::power::a_parity_that_is_made_anew
ForgetAgreed   --lib        raid::tests::power::what_nobody_owns_is_restored
PartedParities --lib        raid::tests::upkeep::a_parity_that_nobody_had
BlindReuse     --lib        raid::tests::updates::rot_in_a_freed_column
ForgetMarks    --lib        core::disks::tests::an_old_image_is_told_by
LookAgain      --lib        raid::tests::updates::parity_is_made_of_what
CreditParity   --lib        raid::tests::updates::a_parity_that_was_changed
TrustOut       --lib        raid::tests::gone::what_a_disk_missed_in_the_middle
OldProof       --test=array reader::a_scrub
DropRedo       --test=array reader::what_two_disks
DropRedo       --test=array crashes::what_a_disk_that_is_not_there
DropRedo       --test=array crashes::a_disk_that_fails_while_a_checkpoint
BlindReuse     --lib        raid::tests::upkeep::a_parity_that_rotted_does_not_follow_to_a_disk
ForgetWritten  --test=array crashes::what_a_disk_that_is_not_there
ForgetWritten  --test=array crashes::a_disk_that_fails_while_a_checkpoint
ForgetRedone   --test=array crashes::what_a_start_has_done_again
EarlyChunks    --test=array crashes::chunks_of_a_set
KeepRedone     --test=array crashes::what_a_checkpoint_without_its_record_put_where_others
ForgetHalf     --lib        raid::tests::gone::what_a_disk_missed_in_the_middle
AnewBeyond     --lib        raid::tests::gone::what_too_few_disks_give
NobodySound    --lib        raid::tests::gone::what_nobody_was_sound_for
LiveRefused    --lib        engine::apply::tests::what_was_refused
UnnotedRedo    --lib        engine::redo::tests::what_a_redone_update
HastyHolders   --lib        core::disks::tests::a_holder_that_was_closed
HastyMerge     --test=array beyond::what_a_merge_needs
KeepEmptied    --test=array full::what_is_given_back
TwoReturns     --test=array disks::a_disk_that_is_taken_back
ForgetHalf     --test=array beyond::beside_a_disk_that_is_gone
DropHalf       --test=array beyond::a_disk_that_was_out_for_long_gets
EarlyForget    --lib        raid::tests::gone::a_disk_that_was_given_its_part
EarlyForget    --test=array halves::a_start_that_ends_before
KeepHalf       --lib        raid::redo::tests::what_is_half_done_is_over
ForgetUnowned  --lib        raid::tests::gone::what_nobody_owns_on_a_disk
ZeroBlank      --lib        raid::tests::gone::what_nobody_owns_stays
HastyParity    --lib        raid::tests::upkeep::a_parity_that_alone_gives_a_block
OldRoots       --test=array walks::a_walk_beside_writers_calls
LoneReader     --lib        pages::tests::who_has_to_load_a_page
AskForEver     --test=array stalls::a_write_whose_map_nobody_can_read
KeepSound      --lib        raid::tests::gone::a_disk_that_lost_all
ForgetGivenUp  --lib        raid::tests::gone::a_parity_that_was_made_without
BlindParity    --lib        raid::tests::gone::a_parity_that_alone_gives_what
ChanceProof    --lib        raid::tests::gone::what_a_new_chunk_holds
BareParity     --lib        raid::tests::gone::a_parity_that_nobody_has
BlameMemory    --lib        journal::tests::a_holder_is_not_dropped
BlameMemory    --lib        core::disks::tests::a_holder_is_not_put_out
ForgetDoubt    --lib        raid::tests::gone::a_parity_is_not_made_of_what_was_given
BlameDoubt     --lib        raid::tests::gone::who_was_given_what_the_parity
CreditDisk     --lib        raid::set::tests::who_took_a_write_in_a_seat
LoneLabel      --test=array membership::an_array_that_has_stopped
KeepCut        --test=array copies::a_disk_that_was_cut_short_says
KeepCut        --test=array copies::a_disk_that_was_cut_short_between
KeepCut        --test=array copies::a_disk_that_was_cut_short_while
KeepCut        --lib        label::tests::a_disk_that_was_cut_short
KeepLack       --test=array copies::a_disk_that_was_cut_short_between
FarHalves      --lib        membership::tests::choosing::two_halves_that_went_far
KeepCore       --test=array beside::a_checkpoint_of_many
TrustLine      --lib        membership::tests::choosing::labels_that_were_cut_off_hide
QuietStart     --test=array copies::two_copies
HastyStart     --test=array copies::two_copies
LoneSeal       --test=array copies::a_copy_that_lost_a_disk
HastyEnd       --test=array closing::labels_that_are_being_written
HastyEnd       --test=array closing::a_disk_that_takes_its_label
KeepDisks      --test=array closing::a_label_that_takes_too_long
KeepDisks      --test=array closing::a_disk_that_comes_back_too_late
KeepClosing    --test=array closing::a_last_checkpoint
AskLater       --lib        engine::end::tests::a_disk_that_fails
KeepChanging   --test=array closing::labels_that_take_too_long
ReturnLate     --test=array closing::a_disk_that_answers
JoinBeside     --test=array closing::a_disk_that_joins
EarlyOthers    --test=array closing::a_disk_that_lacks
LoneRecord     --lib        core::disks::tests::what_a_holder_refuses
LateRecord     --lib        core::disks::tests::no_record_is_written
KeepOldCopy    --test=array copies::an_old_image_of_a_holder_gets
KeepOldCopy    --test=array copies::an_old_image_of_a_holder_that_was_out
KeepOldLabel   --test=array copies::an_image_from_before
KeepOldImage   --test=array copies::an_old_image_of_a_disk_that_was_out
KeepOldImage   --lib        membership::tests::choosing::a_disk_that_is_older
BlindToMarks   --test=array copies::an_image_of_this_life
BlindToMarks   --test=array copies::an_image_of_a_holder
BlindLabel     --test=array copies::a_disk_that_was_cut_short_while_it_is_in_use
HastyLeave     --lib        upkeep::returning::tests::a_disk_leaves_when
LeaveAnyway    --lib        manage::disks::tests::a_disk_that_is_not_to_leave
KeepLater      --lib        manage::disks::tests::a_disk_that_is_being_kept
BlameGrown     --lib        label::tests::a_disk_that_has_grown
BlindToCut     --test=array copies::a_disk_that_was_cut_short_gives_the_checkpoint
BlindToCut     --test=array copies::a_disk_that_was_cut_short_gives_the_journal
ForgetWaived   --test=array copies::a_disk_that_was_cut_short_and_ran_alone
HastyRecord    --test=array copies::a_disk_that_was_cut_short_between
FailLast       --test=array stalls::the_only_disk_with_a_checkpoint_is_kept_before
NoStandIn      --lib        membership::recovery::tests::a_data_disk_stands_in
NoStandIn      --test=array journal::
TrimKept       --test=array kept::an_array_whose_journal_a_lost_volume_fills
ForgetChanged  --test=array crashes::what_a_checkpoint_without_its_record_put_in_place_is_known_beside
KeepWaiting    --lib        raid::revocable::tests::who_waits_for_a_disk
KeepWaiting    --test=array stalls::a_disk_that_is_declared_failed
TakeCondemned  --lib        upkeep::returning::tests::a_disk_that_is_being
BlameAbandoned --lib        upkeep::refresh::tests::what_a_purged_volume
NearLife       --lib        journal::tests::damage::a_life_that_gives
OldRecord      --test=array checkpoints::a_journal_that_names
BelieveOld     --test=array images::old_images_of_all
BelieveOld     --lib        membership::tests::choosing::an_old_image_that_was_cut
KeepFuture     --lib        membership::tests::choosing::who_is_not_there_when
CondemnOld     --lib        membership::tests::choosing::old_images_that_sets_need
BlindToLater   --test=array images::old_images_of_all
BlindToLater   --test=array images::an_old_image_beside
BlindRefresh   --lib        raid::tests::upkeep::a_rebuild_takes_nothing
BlindLoss      --lib        raid::tests::upkeep::what_does_not_match_is_left_out
BareLoss       --lib        raid::tests::copies::what_nobody_has_comes
BlindStale     --lib        raid::tests::upkeep::what_does_not_match_is_left_out
BlindHeal      --lib        raid::tests::copies::a_heal_takes_nothing
BlindRepair    --lib        raid::tests::copies::what_a_disk_does_not_keep
BlindMend      --lib        raid::tests::copies::a_scrub_repairs_nothing
BlindMend      --lib        raid::tests::copies::a_scrub_restores
BlindScrub     --lib        raid::tests::copies::a_scrub_repairs_nothing
BlindScrub     --lib        raid::tests::copies::a_scrub_restores
BlindSolve     --lib        raid::tests::copies::a_scrub_repairs_nothing
BlindSolve     --lib        raid::tests::copies::a_scrub_restores
KeepPage       --lib        core::sets::tests::a_copy_of_a_page
BlindPage      --lib        core::sets::tests::a_page_whose_place
NoFill         --lib        journal::tests::a_new_holder_is_filled
VolatileFill   --lib        journal::tests::a_holder_that_was_filled
FailedFill     --lib        journal::tests::nobody_is_given_what
LoneSlot       --test=array renewed::a_checkpoint_that_one_disk
LoneWave       --test=array renewed::a_wave_that_one_disk
BlindChange    --lib        raid::tests::updates::a_damaged_block_that_changes
BlindMerge     --test=array rot::a_block_that_nobody_has_stays_lost
KeepErrors     --test=array disks::a_disk_whose_cable
KeepClosed     --test=array disks::a_disk_that_is_forgiven
NoRebalance    --test=array balance::an_added_disk
RushOn         --lib        volume::throttle::tests::writers_that_never_pause
HoldLeaks      --test=array held::all_kinds_of_change_wait
HoldLeaks      --test=array held::a_held_change_that_is_given_up
HoldForever    --test=array held::a_hold_ends_by_itself
HoldForever    --lib        core::holds::tests::a_hold_ends_by_itself
LateCut        --test=array held::a_snapshot_of_a_hold
LateCut        --test=array held::a_hold_ends_by_itself
LateCut        --test=array held::a_snapshot_of_what_is_not_held
HoldOfOther    --test=array held::a_snapshot_of_what_is_not_held
HeldRollback   --test=array held::what_operators_change
LendAgain      --test=array kept::hosts_that_fill_the_journal_during
LendAgain      --test=array kept::hosts_that_fill_the_journal_while
LendAgain      --lib        journal::tests::share::what_is_kept
BusyThoughRan  --test=wire  scarcity::
StayAfloat     --test=wire  floating::a_login_at_a_floating_portal
BeyondLimit    --test=wire  crowded::a_login_beyond_the_limit
BeyondLimit    --test=wire  crowded::hosts_that_come_at_once
OneHasAll      --test=wire  crowded::one_address
NoReturn       --test=wire  crowded::a_host_that_comes_back
OwnKeys        --test=wire  login::a_reflected_challenge_is_refused
EarlyAbort     --test=wire  management::a_task_at_the_disk_is_over
LateFence      --test=wire  reservations::preempt_and_abort_ends
EarlyReservation --test=wire reservations::a_reservation_that_cannot_be_saved
NoTurn         --test=wire  reservations::registrations_of_many_hosts
EarlyInstall   --test=wire  reservations::what_is_being_saved
OpenDuringReset --test=wire attentions::what_comes_while_a_reset
UnheardCounts  --test=wire  attentions::no_command_that_was_sent_before
UnheardCounts  --test=wire  attentions::a_start_counts_as_told
NoOrder        --test=wire  order::an_ordered_task_waits
OneLine        --test=wire  strangers::many_names
KeepRoom       --test=wire  strangers::who_has_sent_much_and_then_sends
NoStrangers    --test=wire  strangers::payloads_of_strangers
ForgetSanitize --test=wire  sanitize::
WholeWalk      --test=wire  unmap::a_look_through
AllAtOnce      --test=wire  heavy::long_work
NoAlarm        --test=wire  strangers::names_that_were_trusted
NoStrangers    --test=wire  strangers::data_that_strangers_ask_for
NoTrust        --test=wire  late::names_that_send_just_enough
LateAreMany    --test=wire  late::names_that_send_what
NoPieces       --test=wire  heavy::sanitize
EndlessFlush   --test=wire  targets::a_target_goes_although
OldRules       --test=wire  access_changes::a_login_under_way
OldRules       --test=wire  access_changes::a_login_that_waits
OthersUser     --test=wire  access::who_may_do_what
KeepSessions   --test=wire  access_changes::who_is_not_let_in
OldSecret      --test=wire  access_changes::another_secret
NameAlone      --test=wire  access::a_user_of_the_server
SecondHost     --test=wire  access::a_second_host
ForgetFigures  --test=wire  figures::what_a_session_did
OwnName        --test=wire  reservations::registrations_are_counted
SendRound      --test=wire  elsewhere::a_host_that_is_sent_to_and_fro
EarlyReservation --test=wire reservations::a_reservation_whose_end_cannot_be_saved
FreeNames      --member     running::sets::tests::nobody_else_has_the_names
IgnoreUnread   --member     running::sets::tests::what_may_be_of_a_set_that_does_not_read
SettleMeanwhile --member    running::sets::tests::a_set_is_settled_behind
LateHold       --member     running::sets::tests::a_hold_whose_turn_comes_behind
SettleStale    --member     running::sets::tests::a_void_set_deletes
MoveUndecided  --member     running::sets::tests::nobody_else_has_the_names
PrepareBlind   --member     running::sets::tests::a_volume_that_begins_to_move
ForgetLeft     --member     running::sets::tests::a_volume_that_is_lost_can_be
LateBegin      --member     schedules::tests::no_moment_runs_twice
OwnByName      --member     schedules::tests::no_moment_runs_twice
CatchUp        --member     schedules::tests::no_moment_runs_twice
HastyAside     --member     settings::tests::files_stay_until
EarlyUnits     --member     settings::tests::what_is_answered_as_saved
NoIntent       --member     running::tests::clones::a_clone_that_a_cut
NoIntent       --member     running::tests::clones::new_volumes_that_a_cut
NoIntent       --member     running::tests::first::a_first_volume_that_a_cut
ForgetIntent   --member     running::tests::clones::a_start_completes
OpenIntent     --member     running::tests::clones::a_half_made_volume_is_for_nobody
NoOwnRoom      --member     settings::tests::what_units_keep_leaves_room
TwoStay        --member     running::tests::one_host::a_volume_that_two
VolumeAlone    --member     running::tests::one_host::a_snapshot_that_two
LateRule       --member     running::tests::one_host::a_second_host_that_comes
LoseDamaged    --member     data::remembered::tests::lines_that_do_not_read
EndlessSettings --member    settings::tests::full::full_settings
LateSettings   --member     running::tests::room::room_for_settings_is_made
LoseKey        --member     settings::tests::lost_key::a_key_that_is_removed
GiveBackAwaited --member    membership::tests::names::a_name_is_not_given_back
MirrorBeforeMerge --member  settings::tests::of_group::what_a_member_had_before
AdoptUncommitted --member   running::moving::arrival::tests::a_volume_that_has_arrived_is_served
AdoptUnclaimed --member     running::moving::tests::ends::a_volume_that_stays_while
DiscardAdopted --member     running::moving::arrival::tests::what_was_kept_while
BlindProof     --member     running::moving::tests::ends::a_name_that_has_passed_on
GiveUpLost     --member     running::moving::tests::vouching::what_its_source_has_lost
VouchLeaving   --member     running::moving::tests::vouching::a_source_keeps_nothing
VouchLeaving   --member     running::moving::tests::vouching::a_destination_has_nothing
VouchHidden    --member     running::moving::tests::vouching::nobody_has_what_has_come
PurgeListed    --member     running::moving::tests::vouching::what_its_destination_says
AdoptLost      --member     running::moving::arrival::tests::a_prepared_volume_whose_data_are_lost
AdoptLost      --member     running::moving::tests::lost::what_its_destination_has_lost_before
CountLost      --member     running::moving::tests::lost::what_its_destination_has_lost_since
CountBinned    --member     running::moving::tests::lost::what_its_destination_has_lost_and_deleted
BelieveList    --member     running::moving::tests::lost::nothing_is_thrown_away_as_its_source
VouchLost      --member     running::moving::tests::lost::what_its_source_has_lost
VouchLost      --member     running::moving::tests::vouching::a_destination_has_nothing
ForgetNewer    --member     running::moving::tests::what_is_decided_of_a_move
KeepTwice      --member     running::moving::tests::twice::what_its_destination_has_given_on
KeepTwice      --member     running::moving::tests::twice::what_its_destination_has_under_another_name
KeepTwice      --member     running::moving::tests::twice::what_its_source_has_given_on
KeepRefusedName --member    running::moving::tests::twice::a_name_is_free_again
KeepGivenName  --member     running::moving::tests::lost::a_volume_that_is_made_behind
KeepOldPort    --member     running::moving::arrival::tests::reservations_have_the_portal_group
ServeLeaving   --member     running::tests::leaving::a_volume_that_leaves_is_served_to_nobody
LastDifference --member     running::moving::tests::what_is_sent_is_the_volume
EarlyAnswer    --test=crash settings::what_was_answered
TokenTwice     --group      membership::tests::tokens::a_token_lets_in_one_server
TokenForever   --group      membership::tests::tokens::a_token_that_has_expired
NumberAgain    --group      membership::tests::lives::a_number_is_not_given_again
NoGuard        --group      membership::tests::races::two_that_join_at_the_same_moment
NameTwice      --group      membership::tests::names::of_two_that_claim_a_name
NameForever    --group      membership::tests::names::names_of_who_is_no_member_any_more
NameOfOthers   --group      membership::tests::names::only_who_has_a_name_releases_it
HandOverBlind  --group      membership::tests::handing::a_name_that_passes_on
UndoUnfenced   --group      membership::tests::handing::a_hand_over_that_comes_late
AdoptBlind     --group      membership::tests::handing::a_name_that_is_taken_while
DiscardUnknown --group      handover::tests::a_destination_adopts_by_the_claim_alone
StrandedWaits  --group      handover::tests::what_its_source_cannot_give
UnnamedWaits   --group      handover::tests::what_its_source_cannot_give
DecideBlind    --group      membership::tests::sets::the_first_decision_counts
SweepEarly     --group      membership::tests::sets::who_knows_nothing_of_a_set
SweepEarly     --group      sets::tests::all_keep_their_snapshots_or_none
VoidUnwritten  --group      sets::tests::all_keep_their_snapshots_or_none
WholeEarly     --group      sets::tests::a_set_is_whole_when_all
TakeEarly      --group      sets::tests::nobody_takes_before_all_hold
TakeEarly      --api        server::carry::tests::sets::nobody_takes_before_all_hold
KeepHolds      --api        server::carry::tests::sets::a_refusal_lets_hosts_go_on
SilenceIsDone  --api        server::carry::tests::spread::a_member_that_cannot_say
SilenceIsGone  --api        server::carry::tests::spread::a_home_that_says_nothing
ObeyAnyMember  --api        server::carry::tests::spread::an_order_is_of_the_member
TellForOthers  --api        server::carry::tests::spread::rebuild::a_member_tells_of_itself
SettleFirst    --group      sets::tests::all_keep_their_snapshots_or_none
ForgetCoordinator --group   sets::tests::all_keep_their_snapshots_or_none
KeepMarks      --group      membership::tests::handing::a_volume_that_is_made_anew
PoolForgotten  --group      membership::tests::pools::a_member_goes_from_pool_to_pool
GoneInPool     --group      membership::tests::pools::who_is_removed_is_in_no_pool
PlacedHere     --group      membership::tests::placement::a_volume_goes_to_the_member
MirrorKeepsGone --group     settings::mirror::tests::what_went_in_the_group
MirrorUnread   --group      settings::mirror::tests::what_does_not_read_on_either_side
MergeOverwrites --group     settings::merge::tests::what_both_have_otherwise
HeldUnkeyed    --group      address::holding::tests::an_address_is_never_at_two_members
LongLifetime   --group      address::holding::tests::an_address_is_never_at_two_members
LongLifetime   --group      address::holding::tests::an_address_is_gone_before
TakenEarly     --group      address::holding::tests::an_address_is_never_at_two_members
TakenEarly     --group      address::holding::tests::a_key_is_left_alone
GroupAsMember  --group      pki::tests::what_proves_the_group_at_its_address
AnswerByOwn    --member     membership::tests::address::who_manages_the_group
AnswerAfter    --member     membership::tests::address::who_manages_the_group
AnswerLeaving  --member     membership::tests::address::who_leaves_the_group
OpenEarly      --member     slices::tests::fencing::an_opening_waits
OpenEarly      --member     slices::tests::fencing::a_repeated_write
KeepOpening    --member     slices::tests::opening::only_the_last_opening
OldSecrets     --member     slices::tests::opening::only_the_last_opening
AnyHome        --member     slices::tests::opening::a_slice_is_opened_for_its_home
WithdrawEarly  --member     slices::tests::fencing::a_slice_is_withdrawn
AnyShape       --member     slices::tests::link::a_slice_of_another_size
WaitAgain      --member     slices::tests::link::a_slice_that_is_away
ResolveAtLink  --member     slices::tests::link::of_two_hosts_that_compare
ResolveAtLink  --member     slices::tests::link::a_comparison_that_is_repeated
FormerLife     --member     slices::tests::lives::a_life_that_was_replaced
FormerLife     --member     slices::tests::lives::a_new_life
CachedSlice    --member     slices::tests::durable::what_is_answered
AskAgain       --member     slices::tests::link::a_slice_of_another_size
WithdrawUnflushed --member  slices::tests::fencing::a_slice_is_not_withdrawn_while
WithdrawNewer  --member     slices::tests::fencing::a_slice_that_is_inserted_again
BlindToWork    --member     slices::tests::fencing::a_slice_that_cannot_be_withdrawn
NoDigests      --member     slices::tests::strangers::nobody_is_let_in_without
ForgetSent     --test=reopening a_change_that_was_sent
EarlyFence     --test=reopening a_session_that_comes_back
KeepSession    --test=reopening what_was_sent_through
KeepPath       --test=reopening a_disk_has_one_path
NoPause        --test=reopening two_who_open
EarlyReturn    --initiator paths::tests::steps::a_path_that_is_not_to_be_used
WholeExtent    --initiator disk::facts::tests::an_extent_counts
SharedSteps    --initiator disk::core::tests::a_command_with_the_number
ServeForeign   --member     running::spread::tests::leftovers::a_home_that_is_in_its_group
SeeMaking      --member     running::spread::tests::changes::what_is_half_made
SliceAsVolume  --member     running::spread::tests::life::a_volume_lies_on_three
OwnForAll      --member     running::spread::tests::life::a_volume_lies_on_three
DiscardNeeded  --member     running::spread::tests::leftovers::a_slice_goes_by_the_word
DeleteOpen     --member     running::spread::tests::changes::a_slice_goes_only_when
ChangeSpread   --member     running::spread::tests::refusals::what_only_other
RemoveWithSlices --member   running::spread::tests::leftovers::a_member_with_slices
SayGoneWithSlice --member   running::spread::tests::leftovers::a_home_without_its_records
PurgeStored    --member     running::spread::tests::leftovers::a_slice_of_which_nothing
OpenForeign    --member     running::spread::tests::leftovers::a_member_with_slices
SayByOtherArray --member    running::spread::tests::leftovers::a_home_with_another_array
LeaveBehind    --member     slices::tests::link::a_request_that_came_before
ServeRemoved   --member     running::spread::tests::leftovers::a_home_that_is_in_its_group
ServeUnasked   --member     running::spread::tests::openings::a_home_that_is_an_older
ServeUnheard   --member     spread::disks::tests::hosts_wait_from
ServeOldHome   --member     running::spread::tests::openings::a_home_that_is_an_older
OpenUnstored   --member     running::spread::tests::life::a_volume_lies_on_three
OpenedUnstored --member     running::spread::tests::openings::a_slice_that_is_an_older
RebuildOtherArray --member  running::spread::tests::rebuild::a_home_rebuilds_nothing
RebuildOnline  --member     running::spread::tests::rebuild::a_home_that_has_lost
ForwardUnasked --member     running::spread::tests::openings::a_home_that_is_an_older_one_goes_on
ForwardUntold  --member     running::spread::tests::openings::a_home_that_is_an_older_one_goes_on
ForwardOnline  --member     running::spread::tests::openings::a_home_that_is_an_older_one_goes_on
GroupByClock   --group      pki::tests::what_proves_the_group_is_believed
StayAtGroup    --api        server::at_group::tests::who_talks_to_a_member_at_the_address
AnswerAsOwn    --api        server::at_group::tests::a_member_that_listens_everywhere
MappedAsOwn    --api        server::at_group::tests::a_member_that_listens_everywhere
MappedAsOwn    --api        server::at_group::tests::what_is_about_one_member
UnnamedAtGroup --api        server::carry::tests::between::at_the_address_of_the_group
UnnamedAtGroup --api        server::at_group::tests::what_is_about_one_member
AnswerInAnyNetwork --api    server::at_group::tests::a_member_that_listens_in_another
ProveByOld     --api        server::at_group::tests::a_certificate_that_an_operator_gave
ProveByOwn     --api        server::at_group::tests::a_certificate_that_an_operator_gave
AddressTwice   --group      membership::tests::address::one_member_has_the_address
OthersUncounted --group     membership::tests::connections::members_that_hear
OthersUncounted --group     membership::tests::connections::a_member_may_have
FoundUnlimited --group      membership::tests::connections::limits_are_changed
OlderTells     --group      membership::tests::connections::the_first_that_is_present
CountForever   --group      membership::tests::connections::a_member_may_have
SliceForAll    --group      spread::tests::placement::who_has_hardly_any_room
SliceForAll    --group      spread::tests::placement::each_has_pages_by_its_room
DealtInBlocks  --group      spread::tests::placement::each_has_pages_by_its_room
AskUnstored    --group      spread::tests::walk::no_slice_goes
WholeUnmade    --group      spread::tests::walk::no_slice_goes
ServeMaking    --group      spread::tests::walk::no_slice_goes
GrowFirst      --group      spread::tests::walk::no_slice_goes
AskServed      --group      spread::tests::walk::no_slice_goes
ForgetEarly    --group      spread::tests::walk::no_slice_goes
LateAnswer     --group      spread::tests::walk::no_slice_goes
ForgetPresent  --group      spread::tests::home::only_the_slice_of_who_was_removed
GoneComesBack  --group      settings::spread::tests::a_volume_is_stored_once
GoneComesBack  --group      settings::spread::tests::a_slice_is_stored_once
UnsoundRecord  --group      spread::tests::record::a_record_that_cannot_be
ObeyAnybody    --group      spread::tests::slice::orders_are_taken_from_the_home
MakeUnrecorded --group      spread::tests::walk::no_slice_goes
ForgetWithVolume --group      spread::tests::walk::no_slice_goes
GoneUnread     --group      spread::tests::walk::no_slice_goes
GoneUnread     --group      spread::tests::janitor::what_does_not_read
GoneRecordLost --group      spread::tests::walk::no_slice_goes
GoneOfOthers   --group      spread::tests::janitor::only_the_home_as_it_was
GoWithHome     --group      spread::tests::walk::no_slice_goes
GoOnSilence    --group      spread::tests::walk::no_slice_goes
SlicesUnasked  --group      spread::tests::removal::who_has_a_part
SpreadTwice    --group      settings::spread::tests::a_volume_is_stored_once
SpreadTwice    --group      settings::spread::tests::a_slice_is_stored_once
SpreadTwice    --group      settings::spread::tests::what_does_not_read
GoneOpened     --group      spread::tests::janitor::a_slice_that_was_used
GoneOpened     --group      spread::tests::walk::no_slice_goes
GoneOtherArray --group      spread::tests::janitor::a_home_with_another_array
RebuildPart    --group      spread::tests::rebuild::a_volume_is_made_again_only
RebuildLarger  --group      spread::tests::rebuild::a_home_that_has_lost
RebuildStored  --group      settings::spread::tests::a_volume_that_was_rebuilt
ForgetServed   --group      spread::tests::home::hosts_that_are_in
ForgetServed   --group      spread::tests::walk::no_slice_goes
GrowStored     --group      spread::tests::slice::a_size_that_a_slice_cannot
GrowStored     --group      spread::tests::walk::no_slice_goes
DiscardLater   --group      settings::spread::tests::what_is_damaged_goes
PassUnknownKeys --group     settings::spread::tests::keys_that_no_version
LetterToItself --group      spread::tests::slice::a_letter_that_cannot_be
StoreUnsound   --group      settings::spread::tests::what_cannot_be
VolumeOfOther  --group      spread::tests::record::a_record_that_cannot_be
KeyUnasked     --group      settings::spread::tests::a_record_of_another_number
GoingHolds     --group      spread::tests::removal::a_volume_that_is_being_deleted
OldSlice       --group      spread::tests::opening::a_slice_that_was_put_back
OldHome        --group      spread::tests::opening::a_home_that_was_put_back
OldHome        --group      spread::tests::walk::no_slice_goes
OldBegun       --group      spread::tests::opening::a_home_that_was_put_back_to_the_middle
ForwardUnsaid  --group      spread::tests::rebuild::a_home_that_is_taken
ForwardBack    --group      spread::tests::rebuild::a_home_that_is_taken
ForwardChanged --group      settings::spread::tests::a_home_is_brought_forward
EarlyPlace     --notify     thread::tests::what_was_not_taken_before_a_restart
OldPlace       --notify     place::tests::a_place_of_numbers_that_a_crash_took_back
TellItself     --notify     place::tests::what_counts_less_and_what_is_about
ForgetAudit    --notify     thread::tests::each_change_goes_to_a_syslog_server
SkipAudit      --notify     thread::tests::a_place_that_is_lost_leaves_no_entry_out
LoginsFirst    --notify     thread::tests::a_change_does_not_wait_for_logins
HideMissing    --notify     thread::tests::what_the_log_pushed_out_before_it_was_sent
AllAgain       --notify     thread::tests::a_server_that_ends_connections
SharedAtomic   --block      spread::tests::atomics::who_changes_one_side
UnheldChange   --block      spread::tests::atomics::an_atomic_operation_waits
UnheldRead     --block      spread::tests::atomics::who_reads_over_a_border
IgnoreMark     --block      spread::tests::atomics::who_reads_one_side
ReleaseDropped --block      spread::tests::dropped::a_change_that_is_dropped
VolatileSlices --block      spread::tests::durable::nothing_that_was_answered
UnflushedUnmap --block      spread::tests::durable::nothing_that_was_answered
UnflushedUnmap --block      spread::tests::durable::an_unmap_ends_with_the_flushes
OwnSideFirst   --block      spread::tests::atomics::if_the_side_of_another
PassHalfDone   --block      spread::tests::half_done::what_is_half_done_is_ended
RepeatHalfDone --block      spread::tests::half_done::what_stays_half_done
RepeatHalfDone --block      spread::tests::half_done::what_is_half_done_is_given_up
RepeatInDoubt  --block      spread::tests::half_done::a_comparison_whose_answer
PlainSides     --block      spread::tests::half_done::each_side_is_all
FirstBorder    --block      spread::tests::borders::atomic_operations_over
FlushFirst     --block      spread::tests::durable::an_unmap_ends_with_the_flush_of
EarlyError     --block      spread::tests::faults::an_error_is_told_when_all
EarlyError     --block      spread::join::tests::a_failed_piece
UncutExtent    --block      spread::tests::shape::extents_end_where
GrowBlind      --block      spread::tests::shape::it_grows_with_its_slices
'

# As scripts/test.sh has made it, or made now.
programs=$(cat "${PROGRAMS-/dev/null}")
[[ -n $programs ]] || programs=$(scripts/programs.sh)

# The room whose tests $1 names, and the program of these.
room_of() {
  case $1 in
    --lib | --test=array) echo array ;;
    --test=wire) echo target ;;
    --test=crash) echo drystone ;;
    --test=reopening) echo initiator ;;
    *) echo "${1#--}" ;;
  esac
}
program_of() {
  local room job
  room=$(room_of "$1")
  case $1 in
    --test=*) job=$room:test:${1#--test=} ;;
    *) job=$room:lib:$room ;;
  esac
  awk -v job="$job" '$1 == job { print $3 }' <<<"$programs"
}

# Said again at the end, where whoever reads only that finds it.
fails() {
  echo "test planted $1 ... FAILED: $2"
  unnoticed+="planted $1: $2"$'\n'
  failed=$((failed + 1))
}

declare -A room program
for where in $(awk 'NF { print $2 }' <<<"$planted" | sort --unique); do
  room[$where]=$(room_of "$where") program[$where]=$(program_of "$where")
done
# Where the mistakes are, if that is another room than the test's.
declare -A mistaken=([drystone]=group)
# The array ends over a name that it does not know: what uses it has another variable, or every test would fail by that.
declare -A variable=([array]=DRYSTONE_MUTANT [block]=DRYSTONE_BLOCK_MUTANT [target]=DRYSTONE_MUTANT [member]=DRYSTONE_MEMBER_MUTANT [drystone]=DRYSTONE_GROUP_MUTANT [group]=DRYSTONE_GROUP_MUTANT [notify]=DRYSTONE_MUTANT [api]=DRYSTONE_API_MUTANT [initiator]=DRYSTONE_INITIATOR_MUTANT)
failed=0 unnoticed=''
if [[ $# -eq 0 ]]; then
  # What fails by itself notices nothing.
  for where in "${!program[@]}"; do
    mapfile -t names < <(awk -v where="$where" '$2 == where { print $3 }' <<<"$planted")
    (cd "crates/${room[$where]}" && timeout --kill-after=10 "$((2 * LIMIT_SECONDS))" "${program[$where]}" --quiet "${names[@]}" >/dev/null) ||
      fails "none" "a test of $where fails without a mistake"
  done
else
  planted=$(awk -v part="$1" -v parts="$2" 'NF && n++ % parts == part - 1' <<<"$planted")
fi
# Says how one mistake went, in one line. Many tests wait for a clock, so several run at once.
try() {
  local mistake=$1 where=$2 name=$3 test list why= room=${room[$2]}
  test=${program[$where]}
  list=$("$test" --list "$name" 2>/dev/null)
  if ! grep --quiet ': test$' <<<"$list"; then
    why="there is no $name"
  elif ! grep --quiet "^ *$mistake," "crates/${mistaken[$room]:-$room}/src/mutants.rs"; then
    why="there is no such mistake"
  elif (cd "crates/$room" && env "${variable[$room]}=$mistake" PROPTEST_DISABLE_FAILURE_PERSISTENCE=1 timeout --kill-after=10 "$LIMIT_SECONDS" "$test" "$name") >/dev/null 2>&1; then
    why="$name does not notice it"
  fi
  if [[ -n $why ]]; then
    echo "planted $mistake: $why" >>"$unnoticed_file"
    echo "test planted $mistake ... FAILED: $why"
  else
    echo "$mistake" >>"$noticed_file"
    echo "test planted $mistake ... ok"
  fi
}
said=$(mktemp --directory)
trap 'rm -rf "$said"' EXIT
unnoticed_file=$said/unnoticed noticed_file=$said/noticed
touch "$unnoticed_file" "$noticed_file"
while read -r mistake where name; do
  [[ -n $mistake ]] || continue
  while (($(jobs -pr | wc -l) >= AT_ONCE)); do wait -n || true; done
  try "$mistake" "$where" "$name" &
done <<<"$planted"
wait
passed=$(wc -l <"$noticed_file")
failed=$((failed + $(wc -l <"$unnoticed_file")))
unnoticed+=$(cat "$unnoticed_file")
asked=$(grep --count . <<<"$planted")
[[ $((passed + $(wc -l <"$unnoticed_file"))) -eq $asked ]] || fails "some" "$asked were to be planted, and not all said how they went"

result=ok
[[ $failed -eq 0 ]] || result=FAILED
printf '\n%s\ntest result: %s. %d passed; %d failed; 0 ignored\n' "$unnoticed" "$result" "$passed" "$failed"
[[ $failed -eq 0 ]]
