//! CDBs, sense data, VPD and mode pages, reservations, ALUA. Pure: no transport, no disk, no clock.
