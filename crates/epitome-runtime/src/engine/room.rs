//! The room that a prompt has: the model's window as it is known by now, less what is not conversation.

use std::borrow::Cow;

use epitome::budget::{Meter, Tokens, Window, WindowHints, WindowSource};
use epitome::plan::Room;
use epitome::policy::Policy;
use epitome::wire::Dialect;

use super::Engine;
use super::step::StepRequest;

/// The share of the window that is aimed for after each refusal.
const HARDER: [f64; 4] = [1.0, 0.8, 0.55, 0.3];
/// In a small window the reserves of a large one would leave nothing.
const RESERVE_SHARE_MAX: f64 = 0.25;

impl Engine {
    /// The room that the messages of a step have, in a thread of this dialect.
    pub fn room_for(&self, request: &StepRequest, dialect: Dialect) -> Room {
        self.room(request, dialect, None).0
    }

    /// The room for the messages of a step, and what is kept free for content that comes back. A window that the thread's
    /// provider named is not gone beyond.
    pub(super) fn room(&self, request: &StepRequest, dialect: Dialect, suspected: Option<Tokens>) -> (Room, Tokens) {
        let settings = self.settings();
        let fixed = fixed(request, Meter::new(&**self.counter(), dialect));
        let window = self.window(request, suspected);
        let window = window.share(HARDER[usize::from(request.harder).min(HARDER.len() - 1)]);
        let model = request.served.as_ref().map(|served| &*served.model).or(request.model.as_deref());
        let own = settings.policy.for_model(model.or(settings.model.as_deref()));
        let policy = fitted(&own, window);
        let room = Room::in_window(&policy, window, fixed);
        let budget =
            request.budget.map(|budget| budget.share(HARDER[usize::from(request.harder).min(HARDER.len() - 1)]));
        (within(room, budget, fixed), policy.reserve.rehydration)
    }

    /// The window in tokens as they are counted here.
    fn window(&self, request: &StepRequest, suspected: Option<Tokens>) -> Tokens {
        let settings = self.settings();
        let served = request.served.as_ref();
        let hints = WindowHints {
            told: request.window,
            configured: settings.window,
            model: served.map(|served| &*served.model).or(request.model.as_deref()).or(settings.model.as_deref()),
            ..WindowHints::default()
        };
        let settled = hints.settle(settings.policy.trigger.window);
        let named = matches!(settled.source, WindowSource::Told | WindowSource::Configured).then_some(settled.tokens);
        let learned = served.and_then(|served| match self.window_of(served) {
            Window::Learned(tokens) => Some(tokens),
            Window::Listed(_) | Window::Fallback(_) => None,
        });
        // A listed window is for input alone; what somebody named or a server enforces is for input and output together.
        let enforced = [named, learned, suspected].into_iter().flatten().min();
        let window = enforced.unwrap_or(settled.tokens);
        let output = request.max_output.filter(|_| enforced.is_some()).unwrap_or_default().min(window.share(0.5));
        let factor = served.and_then(|served| self.factor_of(served)).unwrap_or(1.0);
        (window - output).scaled(1.0 / factor)
    }
}

/// The share of a budget that is there for messages, whatever else the prompt has.
const BUDGET_SHARE_MIN: f64 = 0.5;

/// A room within a budget: as much smaller in all its marks as it has to be.
fn within(room: Room, budget: Option<Tokens>, fixed: Tokens) -> Room {
    let Some(budget) = budget else { return room };
    let most = (budget - fixed).max(budget.share(BUDGET_SHARE_MIN));
    if most >= room.limit {
        return room;
    }
    let share = most.get() as f64 / room.limit.get().max(1) as f64;
    Room { trigger: room.trigger.share(share), target: room.target.share(share), limit: most }
}

/// Counts the tokens of a request that are not messages.
pub(super) fn fixed(request: &StepRequest, meter: Meter<'_>) -> Tokens {
    meter.fixed(request.system.as_deref(), request.tools.as_deref()).total() + request.beside
}

/// A policy whose reserves fit into a window.
fn fitted(policy: &Policy, window: Tokens) -> Cow<'_, Policy> {
    let reserved = policy.reserve.safety + policy.reserve.rehydration;
    let most = window.share(RESERVE_SHARE_MAX);
    if reserved <= most {
        return Cow::Borrowed(policy);
    }
    let mut policy = policy.clone();
    let share = most.get() as f64 / reserved.get() as f64;
    policy.reserve.safety = policy.reserve.safety.share(share);
    policy.reserve.rehydration = policy.reserve.rehydration.share(share);
    Cow::Owned(policy)
}
