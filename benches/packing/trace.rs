//! A cluster and the pods that come to it, with the distributions of the cluster that Weng et al. published with "Beware of
//! Fragmentation" (USENIX ATC 2023): all 1,523 nodes with 6,212 accelerators, and the kinds of pods that make up 96 % of its 8,152.

/// Cores, GiB, accelerators, and how many nodes are so.
pub(crate) const NODES: [(i64, i64, i64, usize); 27] = [
    (96, 384, 8, 549),
    (128, 768, 8, 39),
    (96, 768, 8, 21),
    (64, 256, 8, 7),
    (82, 336, 8, 1),
    (32, 128, 4, 28),
    (96, 384, 4, 17),
    (48, 368, 4, 9),
    (104, 512, 2, 387),
    (16, 120, 2, 107),
    (64, 256, 2, 22),
    (8, 60, 2, 2),
    (8, 32, 1, 19),
    (8, 60, 1, 3),
    (128, 1024, 1, 2),
    (32, 256, 0, 129),
    (96, 512, 0, 59),
    (96, 384, 0, 30),
    (32, 128, 0, 23),
    (64, 512, 0, 22),
    (104, 512, 0, 20),
    (32, 64, 0, 10),
    (64, 256, 0, 8),
    (64, 128, 0, 4),
    (104, 768, 0, 3),
    (104, 192, 0, 1),
    (96, 768, 0, 1),
];

/// Thousandths of a core, MiB, accelerators, thousandths of each, and how many pods are so.
const KINDS: [(i64, i64, i64, i64, u32); 67] = [
    (8000, 30517, 0, 0, 163),
    (12500, 57344, 0, 0, 364),
    (15400, 51200, 0, 0, 120),
    (16500, 51200, 0, 0, 95),
    (32000, 49152, 0, 0, 284),
    (4000, 15258, 1, 160, 53),
    (6000, 22888, 1, 160, 20),
    (4000, 15258, 1, 220, 24),
    (8000, 30517, 1, 220, 19),
    (4000, 22888, 1, 230, 26),
    (4000, 30517, 1, 230, 84),
    (8000, 30517, 1, 230, 18),
    (1000, 2048, 1, 320, 22),
    (4000, 15258, 1, 320, 78),
    (4000, 22888, 1, 320, 111),
    (4000, 30517, 1, 320, 43),
    (8000, 30517, 1, 320, 72),
    (4152, 10600, 1, 370, 45),
    (6000, 6144, 1, 460, 51),
    (6000, 12288, 1, 460, 29),
    (6000, 18432, 1, 460, 18),
    (8000, 30517, 1, 470, 360),
    (11908, 47104, 1, 470, 388),
    (4000, 22888, 1, 480, 18),
    (4152, 10600, 1, 550, 72),
    (3152, 5600, 1, 590, 75),
    (11908, 47104, 1, 650, 237),
    (3152, 5600, 1, 810, 1047),
    (4152, 10600, 1, 810, 31),
    (1000, 6144, 1, 1000, 15),
    (3152, 5600, 1, 1000, 470),
    (4000, 24576, 1, 1000, 104),
    (4000, 31250, 1, 1000, 40),
    (8000, 16384, 1, 1000, 104),
    (8000, 32768, 1, 1000, 55),
    (8200, 33792, 1, 1000, 41),
    (9810, 41560, 1, 1000, 195),
    (11300, 37888, 1, 1000, 16),
    (11300, 49152, 1, 1000, 857),
    (11400, 48128, 1, 1000, 534),
    (11400, 77824, 1, 1000, 65),
    (11900, 77824, 1, 1000, 51),
    (11908, 47104, 1, 1000, 153),
    (12000, 15360, 1, 1000, 44),
    (12000, 16384, 1, 1000, 99),
    (12000, 24576, 1, 1000, 158),
    (14200, 58368, 1, 1000, 93),
    (15200, 80896, 1, 1000, 36),
    (15700, 58368, 1, 1000, 158),
    (16000, 32768, 1, 1000, 108),
    (16000, 65536, 1, 1000, 33),
    (16400, 125_952, 1, 1000, 27),
    (18708, 64512, 1, 1000, 255),
    (24200, 93184, 1, 1000, 84),
    (6000, 65536, 2, 1000, 3),
    (14000, 60000, 2, 1000, 1),
    (16200, 66560, 2, 1000, 7),
    (17400, 43008, 2, 1000, 2),
    (30200, 160_768, 2, 1000, 3),
    (32000, 131_072, 4, 1000, 3),
    (32200, 132_096, 4, 1000, 9),
    (60200, 320_512, 4, 1000, 3),
    (64000, 262_144, 8, 1000, 3),
    (64200, 263_168, 8, 1000, 18),
    (88000, 327_680, 8, 1000, 18),
    (120_000, 737_280, 8, 1000, 3),
    (120_200, 640_000, 8, 1000, 2),
];

/// What one pod asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) milli_cpu: i64,
    pub(crate) mebibytes: i64,
    pub(crate) accelerators: i64,
    /// How much of each it needs, in thousandths.
    pub(crate) milli: i64,
}

/// Pods of the distribution, one after the other, each drawn anew.
#[derive(Debug, Clone)]
pub(crate) struct Pods {
    state: u64,
    /// How much more often than in the published trace pods come that ask for several accelerators.
    several: u32,
}

impl Pods {
    pub(crate) const fn seeded(seed: u64, several: u32) -> Self {
        Self { state: seed, several }
    }

    /// SplitMix64, of Steele et al., OOPSLA 2014.
    const fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn weight(&self, accelerators: i64, count: u32) -> u64 {
        u64::from(count) * if accelerators > 1 { u64::from(self.several) } else { 1 }
    }
}

impl Iterator for Pods {
    type Item = Asked;

    fn next(&mut self) -> Option<Asked> {
        let total: u64 = KINDS.iter().map(|kind| self.weight(kind.2, kind.4)).sum();
        let mut at = self.random() % total;
        KINDS.iter().find_map(|&(milli_cpu, mebibytes, accelerators, milli, count)| {
            let weight = self.weight(accelerators, count);
            let is_it = at < weight;
            at = at.wrapping_sub(weight);
            is_it.then_some(Asked { milli_cpu, mebibytes, accelerators, milli })
        })
    }
}
