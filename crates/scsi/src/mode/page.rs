//! The mode pages there are.

/// One mode page: its whole default image and, bit for bit, what MODE SELECT may change.
pub(super) struct Page {
    pub(super) code: u8,
    pub(super) subpage: u8,
    pub(super) default: &'static [u8],
    pub(super) changeable: &'static [u8],
}

impl Page {
    /// Bytes before the parameters: page_0 format has two, sub_page format four.
    pub(super) fn header_bytes(&self) -> usize {
        if self.subpage == 0 { 2 } else { 4 }
    }
}

pub(super) const CACHING: u8 = 0x08;
pub(super) const CONTROL: u8 = 0x0a;
/// Caching page, byte 2.
pub(super) const WCE: u8 = 0x04;
/// Control page, byte 2.
pub(super) const D_SENSE: u8 = 0x04;
/// Control page, byte 4.
pub(super) const SWP: u8 = 0x08;

/// TST: each I_T nexus has a task set of its own, which lives where its session does.
const TASK_SET_PER_NEXUS: u8 = 0b001 << 5;
/// QUEUE ALGORITHM MODIFIER 1: commands may be reordered freely, as they are across cores.
const UNRESTRICTED_REORDERING: u8 = 0x10;
/// Control page, byte 5: commands that another nexus aborts are answered TASK ABORTED.
const TAS: u8 = 0x40;
/// IALUAE: implicit changes of asymmetric access states are enabled.
const IALUAE: u8 = 0x01;
/// DEXCPT: informational exceptions are never reported.
const DEXCPT: u8 = 0x08;
/// SPF: the page is in sub_page format.
const SPF: u8 = 0x40;

/// By page code and subpage code, the order in which they are returned together.
///
/// Power condition (1Ah) is absent because there are no power conditions, and
/// disconnect-reconnect (02h) because for iSCSI its values are those of the text keys
/// MaxBurstLength and FirstBurstLength, which each session negotiates.
pub(super) const PAGES: &[Page] = &[
    // Read-write error recovery (SBC-4 6.5.10): no retries or correction to tune.
    Page {
        code: 0x01,
        subpage: 0,
        default: &[0x01, 0x0a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        changeable: &[0; 12],
    },
    // Caching (SBC-4 6.5.6).
    Page {
        code: CACHING,
        subpage: 0,
        default: &[CACHING, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        changeable: &[0, 0, WCE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    },
    // Control (SPC-5 7.5.8): a task set for each I_T nexus (TST 001b), UA_INTLCK_CTRL 00b.
    Page {
        code: CONTROL,
        subpage: 0,
        default: &[
            CONTROL,
            0x0a,
            TASK_SET_PER_NEXUS,
            UNRESTRICTED_REORDERING,
            0,
            TAS,
            0,
            0,
            0,
            0,
            0,
            0,
        ],
        changeable: &[0, 0, D_SENSE, 0, SWP, 0, 0, 0, 0, 0, 0, 0],
    },
    // Control extension (SPC-5 7.5.9).
    Page {
        code: CONTROL,
        subpage: 0x01,
        default: &[
            SPF | CONTROL,
            0x01,
            0,
            0x1c,
            IALUAE,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
        ],
        changeable: &[0; 32],
    },
    // Informational exceptions control (SBC-4 6.5.8).
    Page {
        code: 0x1c,
        subpage: 0,
        default: &[0x1c, 0x0a, DEXCPT, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        changeable: &[0; 12],
    },
];

/// Where the page stands in [`PAGES`].
pub(super) fn index(code: u8, subpage: u8) -> Option<usize> {
    PAGES.iter().position(|page| page.code == code && page.subpage == subpage)
}
