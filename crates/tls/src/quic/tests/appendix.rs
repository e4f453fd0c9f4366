//! The examples of RFC 9001 appendix A and of RFC 9369 appendix A.

use crate::quic::Version;

/// What one side sends, and what protects it.
pub(super) struct Side {
    pub(super) secret: &'static str,
    pub(super) key: &'static str,
    pub(super) iv: &'static str,
    pub(super) hp: &'static str,
    pub(super) number: u64,
    pub(super) header: &'static str,
    pub(super) sample: &'static str,
    pub(super) mask: &'static str,
    pub(super) packet: &'static str,
}

/// The examples of a version.
pub(super) struct Appendix {
    pub(super) version: Version,
    /// Section A.2.
    pub(super) client: Side,
    /// Section A.3.
    pub(super) server: Side,
    /// Section A.4.
    pub(super) retry: &'static str,
    /// Section A.5.
    pub(super) short: Side,
    /// The secret after that of section A.5.
    pub(super) updated: &'static str,
}

/// The client's first destination connection id.
pub(super) const DESTINATION_ID: &str = "8394c8f03e515708";

/// The frame at the start of the client's payload of 1162 bytes; what follows is padding.
pub(super) const CLIENT_CRYPTO: &str = "\
        060040f1010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e86804fe3a47f06a2b69484c00\
        000413011302010000c000000010000e00000b6578616d706c652e636f6dff01000100000a00080006001d\
        0017001800100007000504616c706e000500050100000000003300260024001d00209370b2c9caa47fbaba\
        f4559fedba753de171fa71f50f1ce15d43e994ec74d748002b0003020304000d0010000e04030503060302\
        03080408050806002d00020101001c00024001003900320408ffffffffffffffff05048000ffff07048000\
        ffff0801100104800075300901100f088394c8f03e51570806048000ffff\
    ";

/// The server's payload.
pub(super) const SERVER_PAYLOAD: &str = "\
        02000000000600405a020000560303eefce7f7b37ba1d1632e96677825ddf73988cfc79825df566dc5430b\
        9a045a1200130100002e00330024001d00209d3c940d89690b84d08a60993c144eca684d1081287c834d53\
        11bcf32bb9da1a002b00020304\
    ";

/// The payload of the packet with a short header: PING.
pub(super) const SHORT_PAYLOAD: &str = "01";

pub(super) const RFC_9001: Appendix = Appendix {
    version: Version::V1,
    client: Side {
        secret: "\
        c00cf151ca5be075ed0ebfb5c80323c42d6b7db67881289af4008f1f6c357aea\
    ",
        key: "1f369613dd76d5467730efcbe3b1a22d",
        iv: "fa044b2f42a3fd3b46fb255c",
        hp: "9f50449e04a0e810283a1e9933adedd2",
        number: 2,
        header: "c300000001088394c8f03e5157080000449e00000002",
        sample: "d1b1c98dd7689fb8ec11d242b123dc9b",
        mask: "437b9aec36",
        packet: "\
        c000000001088394c8f03e5157080000449e7b9aec34d1b1c98dd7689fb8ec11d242b123dc9bd8bab936b4\
        7d92ec356c0bab7df5976d27cd449f63300099f3991c260ec4c60d17b31f8429157bb35a1282a643a8d226\
        2cad67500cadb8e7378c8eb7539ec4d4905fed1bee1fc8aafba17c750e2c7ace01e6005f80fcb7df621230\
        c83711b39343fa028cea7f7fb5ff89eac2308249a02252155e2347b63d58c5457afd84d05dfffdb2039284\
        4ae812154682e9cf012f9021a6f0be17ddd0c2084dce25ff9b06cde535d0f920a2db1bf362c23e596d11a4\
        f5a6cf3948838a3aec4e15daf8500a6ef69ec4e3feb6b1d98e610ac8b7ec3faf6ad760b7bad1db4ba3485e\
        8a94dc250ae3fdb41ed15fb6a8e5eba0fc3dd60bc8e30c5c4287e53805db059ae0648db2f64264ed5e39be\
        2e20d82df566da8dd5998ccabdae053060ae6c7b4378e846d29f37ed7b4ea9ec5d82e7961b7f25a9323851\
        f681d582363aa5f89937f5a67258bf63ad6f1a0b1d96dbd4faddfcefc5266ba6611722395c906556be52af\
        e3f565636ad1b17d508b73d8743eeb524be22b3dcbc2c7468d54119c7468449a13d8e3b95811a198f3491d\
        e3e7fe942b330407abf82a4ed7c1b311663ac69890f4157015853d91e923037c227a33cdd5ec281ca3f79c\
        44546b9d90ca00f064c99e3dd97911d39fe9c5d0b23a229a234cb36186c4819e8b9c5927726632291d6a41\
        8211cc2962e20fe47feb3edf330f2c603a9d48c0fcb5699dbfe5896425c5bac4aee82e57a85aaf4e2513e4\
        f05796b07ba2ee47d80506f8d2c25e50fd14de71e6c418559302f939b0e1abd576f279c4b2e0feb85c1f28\
        ff18f58891ffef132eef2fa09346aee33c28eb130ff28f5b766953334113211996d20011a198e3fc433f9f\
        2541010ae17c1bf202580f6047472fb36857fe843b19f5984009ddc324044e847a4f4a0ab34f719595de37\
        252d6235365e9b84392b061085349d73203a4a13e96f5432ec0fd4a1ee65accdd5e3904df54c1da510b0ff\
        20dcc0c77fcb2c0e0eb605cb0504db87632cf3d8b4dae6e705769d1de354270123cb11450efc60ac47683d\
        7b8d0f811365565fd98c4c8eb936bcab8d069fc33bd801b03adea2e1fbc5aa463d08ca19896d2bf59a071b\
        851e6c239052172f296bfb5e72404790a2181014f3b94a4e97d117b438130368cc39dbb2d198065ae39865\
        47926cd2162f40a29f0c3c8745c0f50fba3852e566d44575c29d39a03f0cda721984b6f440591f355e12d4\
        39ff150aab7613499dbd49adabc8676eef023b15b65bfc5ca06948109f23f350db82123535eb8a7433bdab\
        cb909271a6ecbcb58b936a88cd4e8f2e6ff5800175f113253d8fa9ca8885c2f552e657dc603f252e1a8e30\
        8f76f0be79e2fb8f5d5fbbe2e30ecadd220723c8c0aea8078cdfcb3868263ff8f0940054da48781893a7e4\
        9ad5aff4af300cd804a6b6279ab3ff3afb64491c85194aab760d58a606654f9f4400e8b38591356fbf6425\
        aca26dc85244259ff2b19c41b9f96f3ca9ec1dde434da7d2d392b905ddf3d1f9af93d1af5950bd493f5aa7\
        31b4056df31bd267b6b90a079831aaf579be0a39013137aac6d404f518cfd46840647e78bfe706ca4cf5e9\
        c5453e9f7cfd2b8b4c8d169a44e55c88d4a9a7f9474241e221af44860018ab0856972e194cd934\
    ",
    },
    server: Side {
        secret: "\
        3c199828fd139efd216c155ad844cc81fb82fa8d7446fa7d78be803acdda951b\
    ",
        key: "cf3a5331653c364c88f0f379b6067e37",
        iv: "0ac1493ca1905853b0bba03e",
        hp: "c206b8d9b9f0f37644430b490eeaa314",
        number: 1,
        header: "c1000000010008f067a5502a4262b50040750001",
        sample: "2cd0991cd25b0aac406a5816b6394100",
        mask: "2ec0d8356a",
        packet: "\
        cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a5816b6394100f37a1c6979\
        7554780bb38cc5a99f5ede4cf73c3ec2493a1839b3dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73cc3f\
        3bded74b562bfb19fb84022f8ef4cdd93795d77d06edbb7aaf2f58891850abbdca3d20398c276456cbc421\
        58407dd074ee\
    ",
    },
    retry: "ff000000010008f067a5502a4262b5746f6b656e04a265ba2eff4d829058fb3f0f2496ba",
    short: Side {
        secret: "\
        9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b\
    ",
        key: "\
        c6d98ff3441c3fe1b2182094f69caa2ed4b716b65488960a7a984979fb23e1c8\
    ",
        iv: "e0459b3474bdd0e44a41c144",
        hp: "\
        25a282b9e82f06f21f488917a4fc8f1b73573685608597d0efcb076b0ab7a7a4\
    ",
        number: 654_360_564,
        header: "4200bff4",
        sample: "5e5cd55c41f69080575d7999c25a5bfb",
        mask: "aefefe7d03",
        packet: "4cfe4189655e5cd55c41f69080575d7999c25a5bfb",
    },
    updated: "\
        1223504755036d556342ee9361d253421a826c9ecdf3c7148684b36b714881f9\
    ",
};

pub(super) const RFC_9369: Appendix = Appendix {
    version: Version::V2,
    client: Side {
        secret: "\
        14ec9d6eb9fd7af83bf5a668bc17a7e283766aade7ecd0891f70f9ff7f4bf47b\
    ",
        key: "8b1a0bc121284290a29e0971b5cd045d",
        iv: "91f73e2351d8fa91660e909f",
        hp: "45b95e15235d6f45a6b19cbcb0294ba9",
        number: 2,
        header: "d36b3343cf088394c8f03e5157080000449e00000002",
        sample: "ffe67b6abcdb4298b485dd04de806071",
        mask: "94a0c95e80",
        packet: "\
        d76b3343cf088394c8f03e5157080000449ea0c95e82ffe67b6abcdb4298b485dd04de806071bf03dceebf\
        a162e75d6c96058bdbfb127cdfcbf903388e99ad049f9a3dd4425ae4d0992cfff18ecf0fdb5a842d097470\
        52f17ac2053d21f57c5d250f2c4f0e0202b70785b7946e992e58a59ac52dea6774d4f03b55545243cf1a12\
        834e3f249a78d395e0d18f4d766004f1a2674802a747eaa901c3f10cda5500cb9122faa9f1df66c392079a\
        1b40f0de1c6054196a11cbea40afb6ef5253cd6818f6625efce3b6def6ba7e4b37a40f7732e093daa7d521\
        90935b8da58976ff3312ae50b187c1433c0f028edcc4c2838b6a9bfc226ca4b4530e7a4ccee1bfa2a3d396\
        ae5a3fb512384b2fdd851f784a65e03f2c4fbe11a53c7777c023462239dd6f7521a3f6c7d5dd3ec9b3f233\
        773d4b46d23cc375eb198c63301c21801f6520bcfb7966fc49b393f0061d974a2706df8c4a9449f11d7f3d\
        2dcbb90c6b877045636e7c0c0fe4eb0f697545460c806910d2c355f1d253bc9d2452aaa549e27a1fac7cf4\
        ed77f322e8fa894b6a83810a34b361901751a6f5eb65a0326e07de7c1216ccce2d0193f958bb3850a833f7\
        ae432b65bc5a53975c155aa4bcb4f7b2c4e54df16efaf6ddea94e2c50b4cd1dfe06017e0e9d02900cffe19\
        35e0491d77ffb4fdf85290fdd893d577b1131a610ef6a5c32b2ee0293617a37cbb08b847741c3b8017c25c\
        a9052ca1079d8b78aebd47876d330a30f6a8c6d61dd1ab5589329de714d19d61370f8149748c72f132f0fc\
        99f34d766c6938597040d8f9e2bb522ff99c63a344d6a2ae8aa8e51b7b90a4a806105fcbca31506c446151\
        adfeceb51b91abfe43960977c87471cf9ad4074d30e10d6a7f03c63bd5d4317f68ff325ba3bd80bf4dc8b5\
        2a0ba031758022eb025cdd770b44d6d6cf0670f4e990b22347a7db848265e3e5eb72dfe8299ad7481a4083\
        22cac55786e52f633b2fb6b614eaed18d703dd84045a274ae8bfa73379661388d6991fe39b0d93debb4170\
        0b41f90a15c4d526250235ddcd6776fc77bc97e7a417ebcb31600d01e57f32162a8560cacc7e27a096d37a\
        1a86952ec71bd89a3e9a30a2a26162984d7740f81193e8238e61f6b5b984d4d3dfa033c1bb7e4f0037febf\
        406d91c0dccf32acf423cfa1e7071010d3f270121b493ce85054ef58bada42310138fe081adb04e2bd901f\
        2f13458b3d6758158197107c14ebb193230cd1157380aa79cae1374a7c1e5bbcb80ee23e06ebfde206bfb0\
        fcbc0edc4ebec309661bdd908d532eb0c6adc38b7ca7331dce8dfce39ab71e7c32d318d136b6100671a1ae\
        6a6600e3899f31f0eed19e3417d134b90c9058f8632c798d4490da4987307cba922d61c39805d072b589bd\
        52fdf1e86215c2d54e6670e07383a27bbffb5addf47d66aa85a0c6f9f32e59d85a44dd5d3b22dc2be80919\
        b490437ae4f36a0ae55edf1d0b5cb4e9a3ecabee93dfc6e38d209d0fa6536d27a5d6fbb17641cde27525d6\
        1093f1b28072d111b2b4ae5f89d5974ee12e5cf7d5da4d6a31123041f33e61407e76cffcdcfd7e19ba58cf\
        4b536f4c4938ae79324dc402894b44faf8afbab35282ab659d13c93f70412e85cb199a37ddec600545473c\
        fb5a05e08d0b209973b2172b4d21fb69745a262ccde96ba18b2faa745b6fe189cf772a9f84cbfc\
    ",
    },
    server: Side {
        secret: "\
        0263db1782731bf4588e7e4d93b7463907cb8cd8200b5da55a8bd488eafc37c1\
    ",
        key: "82db637861d55e1d011f19ea71d5d2a7",
        iv: "dd13c276499c0249d3310652",
        hp: "edf6d05c83121201b436e16877593c3a",
        number: 1,
        header: "d16b3343cf0008f067a5502a4262b50040750001",
        sample: "6f05d8a4398c47089698baeea26b91eb",
        mask: "4dd92e91ea",
        packet: "\
        dc6b3343cf0008f067a5502a4262b5004075d92faaf16f05d8a4398c47089698baeea26b91eb761d9b8923\
        7bbf87263017915358230035f7fd3945d88965cf17f9af6e16886c61bfc703106fbaf3cb4cfa52382dd16a\
        393e42757507698075b2c984c707f0a0812d8cd5a6881eaf21ceda98f4bd23f6fe1a3e2c43edd9ce7ca84b\
        ed8521e2e140\
    ",
    },
    retry: "cf6b3343cf0008f067a5502a4262b5746f6b656ec8646ce8bfe33952d955543665dcc7b6",
    short: Side {
        secret: "\
        9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b\
    ",
        key: "\
        3bfcddd72bcf02541d7fa0dd1f5f9eeea817e09a6963a0e6c7df0f9a1bab90f2\
    ",
        iv: "a6b5bc6ab7dafce30ffff5dd",
        hp: "\
        d659760d2ba434a226fd37b35c69e2da8211d10c4f12538787d65645d5d1b8e2\
    ",
        number: 654_360_564,
        header: "4200bff4",
        sample: "e7b6b932bc27d786f4bc2bb20f2162ba",
        mask: "97580e32bf",
        packet: "5558b1c60ae7b6b932bc27d786f4bc2bb20f2162ba",
    },
    updated: "\
        c69374c49e3d2a9466fa689e49d476db5d0dfbc87d32ceeaa6343fd0ae4c7d88\
    ",
};
