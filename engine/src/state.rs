//! Checked transitions: a life cycle is declared once and yields a guard, a diagram and an exhaustive table.
//!
//! Every attempt is noted in a [`Seen`], so that the simulator can say which state × event cells a run has visited.

use std::fmt::Debug;

/// A transition that the life cycle does not have. The machine stays as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Illegal {
    /// The machine.
    pub machine: &'static str,
    /// The state it is in.
    pub state: &'static str,
    /// The event that was refused.
    pub event: &'static str,
}

/// What [`life_cycle!`](crate::life_cycle) implements.
pub trait LifeCycle: Copy + Debug + 'static {
    /// What may happen to it.
    type Event: Copy + Debug + 'static;
    /// Its name.
    const NAME: &'static str;
    /// Its place in [`Seen`]; unique.
    const INDEX: usize;
    /// Names of the states, in order.
    const STATES: &'static [&'static str];
    /// Names of the events, in order.
    const EVENTS: &'static [&'static str];

    /// The state after `event`.
    ///
    /// # Errors
    /// [`Illegal`] when the life cycle has no such transition.
    fn on(self, event: Self::Event) -> Result<Self, Illegal>;

    /// Number of the cell of this state and `event` in the table, row by row.
    fn cell(self, event: Self::Event) -> usize;
}

/// The most machines that one [`Seen`] covers.
pub const MACHINES_MAX: usize = 8;

/// Which state × event cells were tried: one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    cells: [u128; MACHINES_MAX],
}

impl Seen {
    /// Tries a transition and notes it.
    ///
    /// # Errors
    /// [`Illegal`]; the state stays as it was.
    pub fn step<M: LifeCycle>(&mut self, state: &mut M, event: M::Event) -> Result<(), Illegal> {
        self.cells[M::INDEX] |= 1 << state.cell(event);
        *state = state.on(event)?;
        Ok(())
    }

    /// A transition that the caller has made sure of.
    ///
    /// # Panics
    /// When the life cycle does not have it: our bug.
    pub fn must<M: LifeCycle>(&mut self, state: &mut M, event: M::Event) {
        if let Err(illegal) = self.step(state, event) {
            panic!("a life cycle was broken: {illegal:?}");
        }
    }

    /// Whether the cell was tried.
    #[must_use]
    pub fn has<M: LifeCycle>(&self, cell: usize) -> bool {
        self.cells[M::INDEX] >> cell & 1 == 1
    }

    /// Adds what another run has seen.
    pub fn join(&mut self, other: &Self) {
        for (mine, theirs) in self.cells.iter_mut().zip(other.cells) {
            *mine |= theirs;
        }
    }
}

/// Declares a life cycle: its place in [`Seen`], states, then `Event(From | From => To);` lines.
#[macro_export]
macro_rules! life_cycle {
    ($(#[$doc:meta])* $name:ident / $events:ident #$index:literal { $($(#[$sdoc:meta])* $state:ident,)* }
     $($(#[$edoc:meta])* $event:ident($($from:ident)|+ => $to:ident);)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$sdoc])* $state,)* }

        #[doc = concat!("What may happen to a [`", stringify!($name), "`].")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $events { $($(#[$edoc])* $event,)* }

        impl $name {
            /// Every state, in order.
            pub const ALL: &'static [Self] = &[$(Self::$state,)*];

            /// The life cycle as a Graphviz digraph; checked against the diagram above the declaration.
            #[must_use]
            pub fn dot() -> String {
                let mut out = String::from(concat!("digraph ", stringify!($name), " {\n"));
                $($(out += concat!("  ", stringify!($from), " -> ", stringify!($to), " [label = \"", stringify!($event), "\"];\n");)+)*
                out + "}\n"
            }
        }

        impl $events {
            /// Every event, in order.
            pub const ALL: &'static [Self] = &[$(Self::$event,)*];
        }

        impl $crate::state::LifeCycle for $name {
            type Event = $events;
            const NAME: &'static str = stringify!($name);
            const INDEX: usize = $index;
            const STATES: &'static [&'static str] = &[$(stringify!($state),)*];
            const EVENTS: &'static [&'static str] = &[$(stringify!($event),)*];

            fn on(self, event: $events) -> Result<Self, $crate::state::Illegal> {
                match (self, event) {
                    $($((Self::$from, $events::$event))|+ => Ok(Self::$to),)*
                    _ => Err($crate::state::Illegal {
                        machine: Self::NAME,
                        state: Self::STATES[self as usize],
                        event: Self::EVENTS[event as usize],
                    }),
                }
            }

            fn cell(self, event: $events) -> usize {
                self as usize * Self::EVENTS.len() + event as usize
            }
        }
    };
}

/// The exhaustive table of a life cycle as text: one line per state, one column per event, `-` where it is refused.
#[must_use]
pub fn table<M: LifeCycle>(states: &[M], events: &[M::Event]) -> String {
    let mut out = format!("| {} | {} |\n", M::NAME, M::EVENTS.join(" | "));
    for (state, name) in states.iter().zip(M::STATES) {
        let cells: Vec<_> = events
            .iter()
            .map(|event| {
                state
                    .on(*event)
                    .map_or("-".to_owned(), |to| format!("{to:?}"))
            })
            .collect();
        out += &format!("| {name} | {} |\n", cells.join(" | "));
    }
    out
}
