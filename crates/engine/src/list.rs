//! A queue of slots that allows taking one out of its middle: timers of one constant delay (the
//! oldest expires first, so no heap is needed), idle connections, requests waiting in line.

const NONE: u32 = u32::MAX;

/// A doubly linked list of slot numbers, each at most once. Every operation takes constant time;
/// memory is eight bytes for each slot number ever seen.
#[derive(Debug, Default)]
pub(crate) struct SlotList {
    links: Vec<Links>,
    ends: Option<Ends>,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    head: u32,
    tail: u32,
}

#[derive(Clone, Copy, Debug)]
struct Links {
    /// The slot itself where it is not in the list, [`NONE`] at the head.
    previous: u32,
    next: u32,
}

impl SlotList {
    /// Puts `slot`, which is not in the list, at its end.
    #[inline]
    pub(crate) fn push_back(&mut self, slot: u32) {
        self.grow_to(slot);
        debug_assert!(!self.contains(slot), "slot {slot} stands in the list already");
        let previous = self.ends.map_or(NONE, |ends| ends.tail);
        self.links[slot as usize] = Links { previous, next: NONE };
        match &mut self.ends {
            None => self.ends = Some(Ends { head: slot, tail: slot }),
            Some(ends) => {
                self.links[ends.tail as usize].next = slot;
                ends.tail = slot;
            }
        }
        self.len += 1;
    }

    /// Takes `slot` out, where it is in the list; true when it was.
    #[inline]
    pub(crate) fn remove(&mut self, slot: u32) -> bool {
        if !self.contains(slot) {
            return false;
        }
        let Links { previous, next } = self.links[slot as usize];
        self.links[slot as usize].previous = slot;
        match (previous, next) {
            (NONE, NONE) => self.ends = None,
            (NONE, next) => {
                self.links[next as usize].previous = NONE;
                self.set_ends(|ends| ends.head = next);
            }
            (previous, NONE) => {
                self.links[previous as usize].next = NONE;
                self.set_ends(|ends| ends.tail = previous);
            }
            (previous, next) => {
                self.links[previous as usize].next = next;
                self.links[next as usize].previous = previous;
            }
        }
        self.len -= 1;
        true
    }

    /// The slot that has been in the list longest.
    #[inline]
    pub(crate) fn front(&self) -> Option<u32> {
        self.ends.map(|ends| ends.head)
    }

    /// The slot put in last.
    #[inline]
    pub(crate) fn back(&self) -> Option<u32> {
        self.ends.map(|ends| ends.tail)
    }

    /// Takes the oldest slot out.
    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<u32> {
        self.front().inspect(|slot| _ = self.remove(*slot))
    }

    /// Takes the newest slot out.
    #[inline]
    pub(crate) fn pop_back(&mut self) -> Option<u32> {
        self.back().inspect(|slot| _ = self.remove(*slot))
    }

    /// True when `slot` is in the list.
    #[inline]
    pub(crate) fn contains(&self, slot: u32) -> bool {
        self.links.get(slot as usize).is_some_and(|links| links.previous != slot)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The slots from the oldest to the newest.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(self.front(), |slot| {
            let next = self.links[*slot as usize].next;
            (next != NONE).then_some(next)
        })
    }

    fn set_ends(&mut self, change: impl FnOnce(&mut Ends)) {
        change(self.ends.as_mut().expect("a list with a linked slot has ends"));
    }

    fn grow_to(&mut self, slot: u32) {
        let from = self.links.len() as u32;
        self.links.extend((from..=slot).map(|s| Links { previous: s, next: NONE }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn it_behaves_as_a_deque_searched_through() {
        let (mut list, mut oracle) = (SlotList::default(), VecDeque::new());
        let mut state = 1u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let slot = (state >> 33) as u32 % 12;
            match (state >> 60) % 4 {
                0 | 1 if !oracle.contains(&slot) => {
                    list.push_back(slot);
                    oracle.push_back(slot);
                }
                2 => assert_eq!(list.pop_front(), oracle.pop_front()),
                3 if slot == 0 => assert_eq!(list.pop_back(), oracle.pop_back()),
                _ => {
                    let place = oracle.iter().position(|s| *s == slot);
                    assert_eq!(list.remove(slot), place.is_some());
                    place.map(|place| oracle.remove(place));
                }
            }
            assert_eq!(list.iter().collect::<Vec<_>>(), oracle.iter().copied().collect::<Vec<_>>());
            assert_eq!((list.front(), list.back()), (oracle.front().copied(), oracle.back().copied()));
            assert_eq!((list.len(), list.is_empty()), (oracle.len(), oracle.is_empty()));
        }
    }
}
