//! The policy that a gateway runs when nobody names another.
//!
//! It is the ladder with a lower low-water mark. A gateway serves threads that go on for long, and on those a deeper cut
//! is the cheaper one: on the recorded sessions of `just cost` the ladder's own mark of a half costs 0.34 of what no
//! compaction would, this one 0.30, what is read back included.

use epitome::policy::{Policy, preset};

/// The low-water mark of a compaction, as a share of the trigger.
const LOW_WATER: f64 = 0.2;

/// The policy that a gateway runs when nobody names another. Plans are under its own name: the ladder's would tell of another
/// low-water mark.
pub fn usual() -> Policy {
    let mut policy = preset("ladder").expect("it ships with the library");
    policy.name = "gateway".to_owned();
    policy.target.low_water = LOW_WATER;
    policy
}

/// Returns the policy that a plan was made under, where it is a preset or the gateway's own; plans name it with its version.
pub fn of_plan(label: &str) -> Option<Policy> {
    let name = label.rsplit_once('@').map_or(label, |(name, _)| name);
    preset(name).or_else(|| Some(usual()).filter(|usual| usual.name == name)).filter(|policy| policy.label() == label)
}

#[cfg(test)]
mod tests {
    use super::usual;

    #[test]
    fn what_just_cost_measures_is_what_the_gateway_runs() {
        let script = include_str!("../../../scripts/cost.py");
        let policy = usual();
        let measured = format!("GATEWAY = \"ladder:20000:target.low_water={}\"", policy.target.low_water);
        assert!(script.contains(&measured), "{measured}");
    }
}
