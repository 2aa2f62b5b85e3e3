//! `drystone pool`.

use super::{Desk, confirm::confirm};
use crate::Failure;
use crate::cli::pool::{PoolArgs, PoolCommand, PoolLimit};
use crate::print::table::Column::{Number, Text};
use crate::print::table::table;
use crate::print::units;
use api::types::Pool;
use group::connections::ConnectionLimit;

/// Does what the command line says.
pub(crate) fn run(args: PoolArgs) -> Result<(), Failure> {
    let desk = Desk::new(&args.member)?;
    Ok(carry_out(&desk, args.command)?)
}

fn carry_out(desk: &Desk, command: PoolCommand) -> anyhow::Result<()> {
    let one = |pool: Pool| desk.show(&pool, |pool| Ok(list(std::slice::from_ref(pool))));
    match command {
        PoolCommand::Create { name } => one(desk.ask(|member| member.create_pool(&name))?),
        PoolCommand::List => {
            let pools = desk.ask(|member| member.pools())?;
            desk.show(&pools, |pools| Ok(list(pools)))
        }
        PoolCommand::Show { name } => one(desk.ask(|member| member.pool(&name))?),
        PoolCommand::Set { name, connections: PoolLimit(limit) } => {
            let limit = limit.map(ConnectionLimit::get);
            one(desk.ask(|member| member.set_pool_connections(&name, limit))?)
        }
        PoolCommand::Merge { name, into, confirm: asked } => {
            let question = format!("Put all members of pool '{name}' into '{into}'?");
            confirm(&asked, &question)?;
            one(desk.ask(|member| member.merge_pool(&name, &into))?)
        }
        PoolCommand::Delete { name } => {
            desk.ask(|member| member.delete_pool(&name))?;
            desk.done(&format!("pool '{name}' is gone"))
        }
    }
}

fn list(pools: &[Pool]) -> String {
    let columns = [
        Text("POOL"),
        Text("MEMBERS"),
        Number("PRESENT"),
        Number("VOLUMES"),
        Number("FREE"),
        Number("CAPACITY"),
        Number("CONNECTIONS"),
        Text("OF MEMBERS"),
    ];
    let row = |pool: &Pool| {
        let members = match &pool.members[..] {
            [] => "-".to_owned(),
            members => members.join(","),
        };
        [
            pool.name.clone(),
            members,
            pool.present.to_string(),
            pool.volumes.to_string(),
            units::bytes(pool.free_bytes),
            units::bytes(pool.capacity_bytes),
            match pool.connections_limit {
                Some(limit) => format!("{} of {limit}", pool.connections),
                None => pool.connections.to_string(),
            },
            of_members(pool),
        ]
    };
    table(columns, pools.iter().map(row))
}

/// How many connections each of its members has.
fn of_members(pool: &Pool) -> String {
    let of = |(name, count): (&String, &u32)| format!("{name} {count}");
    let all: Vec<String> = pool.member_connections.iter().map(of).collect();
    if all.is_empty() { "-".to_owned() } else { all.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeMap;

    #[test]
    fn a_pool_is_a_line() {
        let pool = |name: &str, members: &[&str], limit: Option<u32>| -> Pool {
            serde_json::from_value(json!({
                "name": name, "members": members, "present": members.len(), "volumes": 3,
                "free_bytes": 10_u64 << 30, "capacity_bytes": 20_u64 << 30, "connections": 7 * members.len(),
                "connections_limit": limit, "own_connections_limit": false,
                "member_connections": members.iter().map(|name| (*name, 7)).collect::<BTreeMap<_, _>>(),
            }))
            .unwrap()
        };
        let wanted = "\
POOL     MEMBERS     PRESENT  VOLUMES    FREE  CAPACITY  CONNECTIONS  OF MEMBERS
default  left,right        2        3  10 GiB    20 GiB   14 of 1024  left 7, right 7
fast     -                 0        3  10 GiB    20 GiB            0  -
";
        assert_eq!(
            list(&[pool("default", &["left", "right"], Some(1024)), pool("fast", &[], None)]),
            wanted
        );
    }
}
