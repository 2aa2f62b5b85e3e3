//! Where the I/Os of one flow on one volume go.

use crate::workload::{Flow, Range};

/// A contiguous part of a disk that one storage of a script stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    /// Its first byte on the disk.
    pub(crate) at: u64,
    /// Its length in bytes.
    pub(crate) len: u64,
}

/// One I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Io {
    pub(crate) at: u64,
    pub(crate) len: u32,
    pub(crate) is_read: bool,
}

/// The part of a window that a flow works on.
///
/// Invariant: every I/O drawn lies in the window, at a multiple of `unit` from its start.
#[derive(Debug, Clone)]
pub(crate) struct Area {
    window: Window,
    /// From the start of the window.
    from: u64,
    /// The bytes of the area; beyond the end of the window it goes on at its start.
    len: u64,
    unit: u64,
    hit_len: u64,
}

impl Area {
    /// The area of `flow`; `None` if it has no room for an I/O. `range` is that of the storage.
    pub(crate) fn new(
        window: Window,
        flow: &Flow,
        range: Option<Range>,
        hit_bytes: u64,
    ) -> Option<Self> {
        let unit = u64::from(flow.sizes.common());
        let part = |percent: f64| (window.len as f64 * percent / 100.0) as u64;
        let (from, to) = match flow.range.or(range) {
            None => (0, window.len),
            Some(Range::Percent(from, to)) => (part(from), part(to)),
            Some(Range::Bytes(from, to)) => (from.min(window.len), to.min(window.len)),
        };
        let from = from.div_ceil(unit) * unit;
        // A range that goes on from the start may not reach itself again.
        let len = to.saturating_sub(from).min(window.len) / unit * unit;
        let fits = len >= u64::from(flow.sizes.max());
        let hit_len = (hit_bytes / unit * unit).max(u64::from(flow.sizes.max())).min(len);
        fits.then_some(Self { window, from, len, unit, hit_len })
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The place of an I/O of `len` bytes that begins `offset` bytes into the area, on the disk.
    fn place(&self, offset: u64, len: u64) -> u64 {
        let at = self.from + offset;
        let last = self.window.len.saturating_sub(len);
        // What would cross the end of the window begins at its start.
        let at = if at >= self.window.len { at - self.window.len } else { at };
        self.window.at + if at <= last { at } else { 0 }
    }

    /// The next sequential I/O behind `cursor`, which moves on.
    pub(crate) fn follow(&self, cursor: &mut u64, len: u32) -> u64 {
        let len = u64::from(len);
        if *cursor + len > self.len {
            *cursor = 0;
        }
        let at = self.place(*cursor, len);
        *cursor += len;
        at
    }

    /// Where sequential work goes on behind an I/O at `at` on the disk, for [`follow`](Self::follow).
    pub(crate) fn behind(&self, at: u64, len: u32) -> u64 {
        let at = at - self.window.at;
        // Before the start of the area is what lies beyond the end of the window.
        let offset =
            if at >= self.from { at - self.from } else { at + self.window.len - self.from };
        offset + u64::from(len)
    }

    /// A random place, for a `number` from 0 to 1.
    pub(crate) fn jump(&self, number: f64, len: u32, is_hot_band: bool) -> u64 {
        // The square of a uniform number is below a quarter half of the time.
        let number = if is_hot_band { number * number } else { number };
        self.random(0, self.len, number, len)
    }

    /// A random place in the part that caches hold, or outside of it.
    pub(crate) fn hit(&self, number: f64, len: u32, is_hit: bool) -> u64 {
        let is_apart = self.hit_len * 2 <= self.len;
        match is_hit {
            true => self.random(0, self.hit_len.min(self.len), number, len),
            false if is_apart => self.random(self.hit_len, self.len - self.hit_len, number, len),
            false => self.random(0, self.len, number, len),
        }
    }

    fn random(&self, from: u64, span: u64, number: f64, len: u32) -> u64 {
        let places = (span.saturating_sub(u64::from(len)) / self.unit) + 1;
        let chosen = ((number * places as f64) as u64).min(places - 1);
        self.place(from + chosen * self.unit, u64::from(len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::vdbench;
    use proptest::prelude::*;

    const WINDOW: Window = Window { at: 1 << 20, len: 10 << 20 };

    fn flow(words: &str) -> Flow {
        let text = format!("sd=s,lun=x\nwd=w,sd=s,{words}\nrd=r,wd=w\n");
        vdbench::parse(&text).unwrap().steps.remove(0).flows.remove(0)
    }

    fn area(words: &str) -> Area {
        Area::new(WINDOW, &flow(words), None, 1 << 20).unwrap()
    }

    #[test]
    fn sequential_work_visits_all_and_starts_again() {
        let area = area("xfersize=1m,range=(50,100)");
        let mut cursor = 0;
        let places: Vec<u64> = (0..6).map(|_| area.follow(&mut cursor, 1 << 20) >> 20).collect();
        assert_eq!(places, [6, 7, 8, 9, 10, 6]);
    }

    #[test]
    fn a_range_across_the_end_goes_on_at_the_start() {
        let area = area("xfersize=1m,range=(80,120)");
        let mut cursor = 0;
        let places: Vec<u64> = (0..5).map(|_| area.follow(&mut cursor, 1 << 20) >> 20).collect();
        assert_eq!(places, [9, 10, 1, 2, 9]);
    }

    #[test]
    fn it_goes_on_behind_any_place() {
        let area = area("xfersize=1m,range=(80,120)");
        for (place, next) in [(9, 10), (10, 1), (1, 2), (2, 9)] {
            let mut cursor = area.behind(place << 20, 1 << 20);
            assert_eq!(area.follow(&mut cursor, 1 << 20) >> 20, next, "behind {place}");
        }
    }

    #[test]
    fn hits_stay_in_the_small_part_and_misses_out_of_it() {
        let area = area("xfersize=4k");
        for n in 0..100 {
            let number = f64::from(n) / 100.0;
            assert!(area.hit(number, 4096, true) < WINDOW.at + (1 << 20));
            assert!(area.hit(number, 4096, false) >= WINDOW.at + (1 << 20));
        }
    }

    #[test]
    fn a_hot_band_is_hotter_at_its_start() {
        let area = area("xfersize=4k,hotband=(0,100)");
        let low = (0..1000)
            .filter(|n| area.jump(f64::from(*n) / 1000.0, 4096, true) < WINDOW.at + WINDOW.len / 4);
        assert_eq!(low.count(), 500);
    }

    #[test]
    fn an_area_without_room_is_none() {
        let none = Area::new(Window { at: 0, len: 4096 }, &flow("xfersize=8k"), None, 4096);
        assert!(none.is_none());
    }

    proptest! {
        #[test]
        fn every_io_lies_in_the_window(
            from in 0_u32..100, span in 1_u32..100, sectors in 1_u64..64, number in 0.0..1.0_f64,
        ) {
            let words = format!("xfersize={},range=({from},{})", sectors * 512, from + span);
            let flow = flow(&words);
            if let Some(area) = Area::new(WINDOW, &flow, None, 1 << 16) {
                let len = flow.sizes.max();
                let mut cursor = (number * area.len as f64) as u64 / u64::from(len) * u64::from(len);
                let places = [
                    area.jump(number, len, false), area.jump(number, len, true),
                    area.hit(number, len, true), area.hit(number, len, false),
                    area.follow(&mut cursor, len),
                ];
                for at in places {
                    prop_assert!(at >= WINDOW.at && at + u64::from(len) <= WINDOW.at + WINDOW.len);
                    prop_assert_eq!((at - WINDOW.at) % 512, 0);
                }
            }
        }
    }
}
