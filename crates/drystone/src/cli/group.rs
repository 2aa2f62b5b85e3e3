//! The options of `drystone group`, and how members are addressed.

use crate::cli::logins::parse_time;
use crate::cli::manage::{Confirm, MemberArgs};
use clap::{ArgGroup, Args, Subcommand};
use group::address::GroupAddress;
use group::connections::{ConnectionLimitError, GroupLimit};
use group::membership::{PORT, PORT_MAX};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Examples at the foot of `drystone group --help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  drystone group create san1 --listen 192.0.2.10
          On the first member: the group, of which it is the only member yet
  drystone group token
          A ticket, printed this once, with which one server may join
  drystone member join 192.0.2.10 --token TICKET --listen 192.0.2.11
          On that server, while its own member runs
  drystone member list
  drystone volume list
          The volumes of all members, and whose they are

Commands about volumes, snapshots, schedules, connections and pools may be given to any member and mean the group;
policies, CHAP users, accounts, tokens and where events go on to are set once for all. What is about one member (status,
top, disk, array, run, events, audit, export-config, diff, apply) is about the one that is asked; --on MEMBER asks another.
A volume lies on one member.

The members run the store of the group themselves: each needs etcd (Debian: apt install etcd-server, then
systemctl disable --now etcd). Hosts are served whether or not the store answers.";

/// Make, show and end the group of a running member.
#[derive(Debug, Args)]
pub(crate) struct GroupArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: GroupCommand,

    /// Which member, and how to print.
    #[command(flatten)]
    pub(crate) member: MemberArgs,
}

/// What to do with the group of a member.
#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// Make a group, of which the running member is the first one.
    #[command(
        after_long_help = "Examples:\n  drystone group create san1 --listen 192.0.2.10\n  drystone group create san1 --listen 192.0.2.10 --address 192.0.2.100/24\n  drystone group create san1 --member left --listen [2001:db8::10]:4000"
    )]
    Create {
        /// Its name: 1 to 63 letters, digits, '-', '.' or '_'.
        #[arg(value_name = "NAME")]
        name: String,

        /// What this member is called, and where others reach it.
        #[command(flatten)]
        place: PlaceArgs,

        /// The address at which hosts find the volumes of all members, with the prefix of its network.
        ///
        /// It is one that no server has. One member has it at a time, beside its own, and when that one fails another
        /// does; 'drystone group set' changes it.
        #[arg(long, value_name = "IP/PREFIX")]
        address: Option<GroupAddress>,
    },

    /// Give the group an address at which hosts find the volumes of all members, or say how many connections it takes.
    ///
    /// The address is one that no server has, in a network in which members have theirs. One member has it at a time,
    /// beside its own; when that one fails, another has it within seconds. Hosts discover and log in there, and are sent
    /// to the member that has their volume. Members need the capability CAP_NET_ADMIN for it.
    ///
    /// Once hosts have as many connections as the group takes, or the pool of a member, a login that would be one more is
    /// refused (out of resources), and an event names the host and the volume. Hosts that are logged in stay. From one address
    /// a member takes half of the lower limit. A group of an earlier version has no limits until they are set.
    #[command(
        after_long_help = "Examples:\n  drystone group set --address 192.0.2.100/24\n  drystone group set --no-address\n  drystone group set --connections 16384\n  drystone group set --connections small\n  drystone group set --connections none"
    )]
    #[command(group = ArgGroup::new("what").required(true).args(["address", "no_address", "connections"]))]
    Set {
        /// The address, with the prefix of its network.
        #[arg(long, value_name = "IP/PREFIX")]
        address: Option<GroupAddress>,

        /// The group has no address any more.
        #[arg(long)]
        no_address: bool,

        /// How many connections hosts may have to all members: a number, which leaves pools as they are; 'default' for
        /// 4096 and 1024 for each pool without a limit of its own, as a new group has it; 'small' for 512 and 256; or
        /// 'none' for no limit on either. A pool with a limit of its own keeps that.
        #[arg(long, value_name = "N|small|default|none", value_parser = parse_group_limit)]
        connections: Option<GroupLimit>,
    },

    /// Show the group: its members, who is away, who has its address, where it is managed there, and who runs the
    /// store.
    #[command(after_long_help = "Examples:\n  drystone group show\n  drystone group show --json")]
    Show,

    /// Print the certificate by which the group is known at its address, for who manages it there.
    ///
    /// With --api-listen each member answers at the address of the group while it has that, and proves the group by a
    /// certificate of the group's authority, which is printed here in PEM. It is no secret, and stays the same for as
    /// long as there is the group: whichever member has the address, nobody is asked to trust anew. Do not add it to
    /// what a machine trusts in general: every member could vouch for any name there. What is about one member takes
    /// --on MEMBER there.
    #[command(
        after_long_help = "Examples:\n  drystone group certificate > group.pem\n  drystone volume list --server https://192.0.2.100:8443 --ca-file group.pem --token-file token\n  drystone disk list --on left --server https://192.0.2.100:8443 --ca-file group.pem --token-file token"
    )]
    Certificate,

    /// Give the group another name.
    #[command(after_long_help = "Examples:\n  drystone group rename san2")]
    Rename {
        /// The new name.
        #[arg(value_name = "NAME")]
        name: String,
    },

    /// Make a ticket with which one server may join the group, once. It is printed this once.
    ///
    /// Who has it can become a member: bring it to the other server as you would a password. One that was made by mistake,
    /// or that somebody else has seen, is listed with --list and revoked with --revoke.
    #[command(
        after_long_help = "Examples:\n  drystone group token\n  (umask 077 && drystone group token --expires 1h > ticket)\n  drystone group token --list\n  drystone group token --revoke 00c0ffee"
    )]
    Token {
        /// After how long it is worth nothing: a number and s, m, h or d, such as 30m; 7 days at most.
        #[arg(
            long,
            value_name = "TIME",
            value_parser = parse_time,
            default_value = "24h",
            conflicts_with_all = ["list", "revoke"]
        )]
        expires: Duration,

        /// Make none, and list those that were made and not used, without what they are.
        #[arg(long, conflicts_with = "revoke")]
        list: bool,

        /// Make none, and revoke the one with this ID of the list: nobody joins with it any more.
        #[arg(long, value_name = "ID")]
        revoke: Option<String>,
    },

    /// List the volumes of all members as they were told last, also of those that are away.
    ///
    /// Volumes in recycle bins are not among them. 'drystone volume list' asks the members themselves, names those too, and
    /// leaves out what is of members that are away. A host that logs in at any member for one of them is redirected to the member that has it.
    #[command(
        after_long_help = "Examples:\n  drystone group volumes\n  drystone group volumes --json | jq -r '.[].iqn'"
    )]
    Volumes,

    /// Have this member keep to the settings of the group, where its own contradict them.
    ///
    /// A member shares policies, CHAP users, accounts, tokens and destinations of events by itself once nothing of
    /// the same name is set differently here and in the group: 'drystone status' says what is. Then change or delete
    /// one of both, or give up what is set here.
    #[command(
        after_long_help = "Examples:\n  drystone group share\n  drystone group share --replace-settings"
    )]
    Share {
        /// Give up what is set differently here, and what only this member has: the group's holds, also for hosts of
        /// this member's volumes.
        ///
        /// Policies and CHAP users that only this member has, and that access lists of its volumes need, go to the
        /// group; accounts, tokens, destinations and mutual CHAP that only it has are deleted.
        #[arg(long)]
        replace_settings: bool,

        /// Whether to ask.
        #[command(flatten)]
        confirm: Confirm,
    },

    /// End the group, whose last member this one is. Its array and its volumes stay.
    #[command(after_long_help = "Examples:\n  drystone group delete")]
    Delete {
        /// Whether to ask.
        #[command(flatten)]
        confirm: Confirm,
    },
}

/// What a member is called in the group, and where the others reach it.
#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    /// The name of this member in the group; without it, the name of the machine.
    #[arg(long, value_name = "NAME")]
    pub(crate) member: Option<String>,

    /// Where the other members reach this one: an IP address of this machine. The port, 3262 where none is
    /// written, is the first of five in a row.
    ///
    /// The first is the door at which servers ask to join; the next one is for clients of the store, the third for
    /// its etcds among each other, and the last for what members ask of each other. Open all four between the members,
    /// and to nobody else.
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = parse_listen)]
    pub(crate) listen: SocketAddr,
}

/// Reads `ADDRESS[:PORT]` of a member; `None` of what is no address.
fn address(text: &str) -> Option<SocketAddr> {
    let with_port = |address: IpAddr| SocketAddr::new(address, PORT);
    let bracketed = || text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let bracketed = || bracketed().and_then(|address| address.parse::<Ipv6Addr>().ok());
    text.parse()
        .ok()
        .or_else(|| text.parse().ok().map(with_port))
        .or_else(|| bracketed().map(|address| with_port(address.into())))
}

/// Reads where a member of a group is reached, which may be a name that the member that joins looks up.
pub(crate) fn parse_door(text: &str) -> Result<String, String> {
    if let Some(address) = address(text) {
        return Ok(address.to_string());
    }
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    if text.is_empty() || !text.chars().all(is_of_name) {
        return Err(format!(
            "'{text}' is no member of a group: write HOST[:PORT] as it listens there, such as 192.0.2.10 or \
             [2001:db8::10]:{PORT}"
        ));
    }
    Ok(text.to_owned())
}

/// Reads how many connections a group takes.
fn parse_group_limit(text: &str) -> Result<GroupLimit, String> {
    match text {
        "default" => Ok(GroupLimit::Usual),
        "small" => Ok(GroupLimit::Small),
        "none" => Ok(GroupLimit::None),
        number => {
            let read = number.parse().map(GroupLimit::Number);
            read.map_err(|error: ConnectionLimitError| {
                format!("{error}, 'small', 'default' or 'none'")
            })
        }
    }
}

/// Reads where the member itself listens: others must be able to come to it.
fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let listen = address(text).ok_or_else(|| {
        format!(
            "'{text}' is no address of a member: write ADDRESS[:PORT] with an IP address, such as 192.0.2.10 or \
             [2001:db8::10]:{PORT}"
        )
    })?;
    let is_of_one = match listen.ip() {
        IpAddr::V4(address) => {
            !address.is_unspecified() && !address.is_multicast() && !address.is_broadcast()
        }
        // One of a link says nothing without the interface, which is another one on each machine.
        IpAddr::V6(address) => {
            !address.is_unspecified() && !address.is_multicast() && !address.is_unicast_link_local()
        }
    };
    if !is_of_one {
        return Err(format!(
            "other members cannot come to '{}': write one address of this machine that they reach ('ip address' shows them)",
            listen.ip()
        ));
    }
    if !(1..=PORT_MAX).contains(&listen.port()) {
        return Err(format!(
            "a member takes five ports in a row, and {} is not the first of such: write one of 1 to {PORT_MAX}",
            listen.port()
        ));
    }
    Ok(listen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_a_member_has_a_port_of_its_own_where_none_is_written() {
        let cases = [
            ("192.0.2.10", "192.0.2.10:3262"),
            ("192.0.2.10:4000", "192.0.2.10:4000"),
            ("2001:db8::10", "[2001:db8::10]:3262"),
            ("[2001:db8::10]", "[2001:db8::10]:3262"),
            ("[2001:db8::10]:65531", "[2001:db8::10]:65531"),
            ("127.0.0.1:1", "127.0.0.1:1"),
        ];
        for (text, address) in cases {
            assert_eq!(parse_listen(text), Ok(address.parse().unwrap()), "{text}");
            assert_eq!(parse_door(text).as_deref(), Ok(address), "{text}");
        }
        for wrong in ["", "san1", "san1:3262", "192.0.2.10:", "192.0.2.10:70000", "[::1"] {
            assert!(parse_listen(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_group_takes_a_number_of_connections_or_what_a_profile_has() {
        let number = |number: u32| GroupLimit::Number(number.try_into().expect("it is one"));
        assert_eq!(parse_group_limit("4097"), Ok(number(4097)));
        assert_eq!(parse_group_limit("small"), Ok(GroupLimit::Small));
        assert_eq!(parse_group_limit("default"), Ok(GroupLimit::Usual));
        assert_eq!(parse_group_limit("none"), Ok(GroupLimit::None));
        for wrong in ["", "0", "big", "-1", "4194305"] {
            let said = parse_group_limit(wrong).unwrap_err();
            assert!(said.ends_with("from 1 to 4194304, 'small', 'default' or 'none'"), "{said}");
        }
    }

    #[test]
    fn a_member_that_is_asked_may_have_a_name() {
        for name in ["san1", "san1.example.com:4000"] {
            assert_eq!(parse_door(name).as_deref(), Ok(name));
        }
        for wrong in ["", "[::1", "https://san1", "a b"] {
            let said = parse_door(wrong).unwrap_err();
            assert!(said.contains("is no member of a group: write HOST[:PORT]"), "{said}");
        }
    }

    #[test]
    fn a_member_listens_where_others_can_come_with_four_ports_behind_it() {
        let everywhere = "other members cannot come to ";
        for text in ["0.0.0.0", "255.255.255.255", "[::]:3262", "224.0.0.1", "[ff02::1]", "fe80::1"]
        {
            let said = parse_listen(text).unwrap_err();
            assert!(said.starts_with(everywhere), "{text}: {said}");
        }
        for text in ["192.0.2.10:0", "192.0.2.10:65532", "192.0.2.10:65535"] {
            let said = parse_listen(text).unwrap_err();
            assert!(said.ends_with("write one of 1 to 65531"), "{text}: {said}");
        }
    }
}
