//! LOG SENSE (SPC-5 6.8, 7.3): only pages whose numbers are true.

use crate::Sense;
use crate::cdb::LogSense;

const SUPPORTED: u8 = 0x00;
const INFORMATIONAL_EXCEPTIONS: u8 = 0x2f;
const SUPPORTED_SUBPAGES: u8 = 0xff;

/// The log page for `request`, not yet cut to the allocation length.
pub fn log_sense(request: &LogSense) -> Result<Vec<u8>, Sense> {
    const SPF: u8 = 0x40;
    // There are no thresholds: PC is cumulative, 01b, or default cumulative, which is the same.
    if request.page_control & 1 == 0 {
        return Err(Sense::invalid_field_in_cdb(2, Some(7)));
    }
    let (flags, body) = match (request.page, request.subpage) {
        (SUPPORTED, 0) => (0, vec![SUPPORTED, INFORMATIONAL_EXCEPTIONS]),
        (SUPPORTED, SUPPORTED_SUBPAGES) => {
            let pages =
                [(SUPPORTED, 0), (SUPPORTED, SUPPORTED_SUBPAGES), (INFORMATIONAL_EXCEPTIONS, 0)];
            (SPF, pages.iter().flat_map(|&(page, subpage)| [page, subpage]).collect())
        }
        (INFORMATIONAL_EXCEPTIONS, 0) => (0, informational_exceptions(request.parameter_pointer)?),
        (SUPPORTED | INFORMATIONAL_EXCEPTIONS, _) => {
            return Err(Sense::invalid_field_in_cdb(3, None));
        }
        _ => return Err(Sense::invalid_field_in_cdb(2, Some(5))),
    };
    if request.page == SUPPORTED && request.parameter_pointer != 0 {
        return Err(Sense::invalid_field_in_cdb(5, None));
    }
    let mut data = vec![flags | request.page, request.subpage];
    data.extend((body.len() as u16).to_be_bytes());
    data.extend(body);
    Ok(data)
}

/// Parameter 0000h: no exception is pending, and no temperature is measured (FFh).
fn informational_exceptions(parameter_pointer: u16) -> Result<Vec<u8>, Sense> {
    const BINARY_LIST: u8 = 0x03;
    if parameter_pointer != 0 {
        return Err(Sense::invalid_field_in_cdb(5, None));
    }
    Ok(vec![0, 0, BINARY_LIST, 4, 0, 0, 0xff, 0])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(page: u8, subpage: u8) -> LogSense {
        LogSense { page_control: 1, page, subpage, parameter_pointer: 0, allocation_bytes: 255 }
    }

    #[test]
    fn every_listed_page_can_be_read() {
        let list = log_sense(&request(0, 0)).unwrap();
        assert_eq!(list, [0, 0, 0, 2, 0, 0x2f]);
        let subpages = log_sense(&request(0, 0xff)).unwrap();
        assert_eq!(subpages[..4], [0x40, 0xff, 0, 6]);
        for pair in subpages[4..].chunks(2) {
            let data = log_sense(&request(pair[0], pair[1])).unwrap();
            assert_eq!(data[0] & 0x3f, pair[0]);
            assert_eq!(usize::from(data[3]) + 4, data.len());
        }
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let refused = |request| log_sense(&request).unwrap_err();
        assert_eq!(refused(request(0x0d, 0)), Sense::invalid_field_in_cdb(2, Some(5)));
        assert_eq!(refused(request(0x2f, 1)), Sense::invalid_field_in_cdb(3, None));
        let threshold = LogSense { page_control: 0, ..request(0, 0) };
        assert_eq!(refused(threshold), Sense::invalid_field_in_cdb(2, Some(7)));
        for page in [0, 0x2f] {
            let beyond = LogSense { parameter_pointer: 1, ..request(page, 0) };
            assert_eq!(refused(beyond), Sense::invalid_field_in_cdb(5, None));
        }
    }
}
