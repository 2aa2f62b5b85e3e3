//! The commands that log in to what is served, for `--hints`.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What the commands depend on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hints<'a> {
    /// The first portal.
    pub(crate) portal: SocketAddr,
    /// Name of the target.
    pub(crate) iqn: &'a str,
    /// The user that hosts log in as, with CHAP.
    pub(crate) chap_user: Option<&'a str>,
}

impl Hints<'_> {
    /// The text to print. It never holds a secret.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        self.linux(&mut text);
        self.environment(&mut text);
        let (portal, iqn) = (reachable(self.portal), self.iqn);
        // A write to a String cannot fail.
        let _ = write!(
            text,
            "\n# QEMU\n\
             qemu-img info 'iscsi://{portal}/{iqn}/0'\n\
             qemu-system-x86_64 -m 1G -drive 'file=iscsi://{portal}/{iqn}/0,format=raw,if=virtio'\n\
             \n# libiscsi\n\
             iscsi-ls -s 'iscsi://{portal}'\n\
             iscsi-inq 'iscsi://{portal}/{iqn}/0'\n"
        );
        text
    }

    /// open-iscsi, as root.
    fn linux(&self, text: &mut String) {
        let portal = reachable(self.portal);
        let node = format!("iscsiadm -m node -T {} -p '{portal}'", self.iqn);
        let find = match self.chap_user {
            None => format!("iscsiadm -m discovery -t sendtargets -p '{portal}'"),
            // Discovery would take the secret from /etc/iscsi/iscsid.conf; a record needs none.
            Some(user) => {
                let auth = format!("{node} -o update -n node.session.auth");
                format!(
                    "{node} -o new\n\
                     {auth}.authmethod -v CHAP\n\
                     {auth}.username -v {}\n\
                     {auth}.password -v SECRET",
                    quoted(user)
                )
            }
        };
        // A write to a String cannot fail.
        let _ = writeln!(
            text,
            "# Linux, as root\n{find}\n{node} --login\nlsblk --scsi\n{node} --logout"
        );
    }

    /// libiscsi, and QEMU through it, take logins from the environment.
    fn environment(&self, text: &mut String) {
        let Some(user) = self.chap_user else { return };
        let _ = writeln!(
            text,
            "\n# for QEMU and libiscsi\n\
             export LIBISCSI_CHAP_USERNAME={} LIBISCSI_CHAP_PASSWORD=SECRET",
            quoted(user)
        );
    }
}

/// A portal that listens on every address is reached from this machine by loopback.
fn reachable(portal: SocketAddr) -> SocketAddr {
    let address = match portal.ip() {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        _ => return portal,
    };
    SocketAddr::new(address, portal.port())
}

/// `text` as one word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_chap_the_commands_can_be_pasted_as_they_are() {
        let hints = Hints {
            portal: "127.0.0.1:3260".parse().unwrap(),
            iqn: "iqn.2026-11.a:b",
            chap_user: None,
        };
        let wanted = "\
# Linux, as root
iscsiadm -m discovery -t sendtargets -p '127.0.0.1:3260'
iscsiadm -m node -T iqn.2026-11.a:b -p '127.0.0.1:3260' --login
lsblk --scsi
iscsiadm -m node -T iqn.2026-11.a:b -p '127.0.0.1:3260' --logout

# QEMU
qemu-img info 'iscsi://127.0.0.1:3260/iqn.2026-11.a:b/0'
qemu-system-x86_64 -m 1G -drive 'file=iscsi://127.0.0.1:3260/iqn.2026-11.a:b/0,format=raw,if=virtio'

# libiscsi
iscsi-ls -s 'iscsi://127.0.0.1:3260'
iscsi-inq 'iscsi://127.0.0.1:3260/iqn.2026-11.a:b/0'
";
        assert_eq!(hints.text(), wanted);
    }

    #[test]
    fn with_chap_they_name_the_user_and_leave_the_secret_to_fill_in() {
        let hints = Hints {
            portal: "[::]:3261".parse().unwrap(),
            iqn: "iqn.2026-11.a:b",
            chap_user: Some("o'neil"),
        };
        let text = hints.text();
        let node = "iscsiadm -m node -T iqn.2026-11.a:b -p '[::1]:3261'";
        assert!(!text.contains("sendtargets"), "discovery would be refused:\n{text}");
        for line in [
            format!("{node} -o new"),
            format!("{node} -o update -n node.session.auth.username -v 'o'\\''neil'"),
            format!("{node} -o update -n node.session.auth.password -v SECRET"),
            "export LIBISCSI_CHAP_USERNAME='o'\\''neil' LIBISCSI_CHAP_PASSWORD=SECRET".to_owned(),
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\nis not in\n{text}");
        }
    }
}
