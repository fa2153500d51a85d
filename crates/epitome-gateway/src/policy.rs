//! The policy that a gateway runs when nobody names another.
//!
//! It is the ladder with a lower low-water mark. A gateway serves threads that go on for long, and on those a deeper cut
//! is the cheaper one: on the recorded sessions of `just cost` the ladder's own mark of a half costs 0.34 of what no
//! compaction would, this one 0.30, what is read back included.

use epitome::policy::{Policy, preset};

/// The low-water mark of a compaction, as a share of the trigger.
const LOW_WATER: f64 = 0.2;

/// The policy that a gateway runs when nobody names another.
pub fn usual() -> Policy {
    let mut policy = preset("ladder").expect("it ships with the library");
    policy.target.low_water = LOW_WATER;
    policy
}

#[cfg(test)]
mod tests {
    use super::usual;

    #[test]
    fn what_just_cost_measures_is_what_the_gateway_runs() {
        let script = include_str!("../../../scripts/cost.py");
        let policy = usual();
        let measured = format!("GATEWAY = \"{}:20000:target.low_water={}\"", policy.name, policy.target.low_water);
        assert!(script.contains(&measured), "{measured}");
    }
}
