use super::*;
use crate::access::Account;
use md5::{Digest as _, Md5};

fn request(flags: u8) -> Header {
    let mut header = Header::new(opcode::LOGIN | 0x40, flags, 7);
    header.0[8..14].copy_from_slice(&[0x80, 1, 2, 3, 4, 5]);
    header
}

fn text(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut out = BytesMut::new();
    pairs.iter().for_each(|(key, value)| put_pair(&mut out, key, value));
    out.to_vec()
}

const NORMAL: [(&str, &str); 2] = [("InitiatorName", "iqn.a:i"), ("TargetName", "iqn.b:t")];

fn ask(login: &mut Login<'_>, flags: u8, pairs: &[(&str, &str)]) -> (Step, String, u8) {
    let answer = login.answer(&request(flags), &text(pairs), |_| Ok(()));
    let text = String::from_utf8(answer.text.to_vec()).unwrap().replace('\0', " ");
    (answer.step, text, answer.header.flags())
}

#[test]
fn an_operational_login_agrees_on_the_lesser() {
    let (access, limits) = (Access::default(), Limits::default());
    let mut login = Login::new(&access, &limits, None);
    let mut pairs = NORMAL.to_vec();
    pairs.extend([
        ("HeaderDigest", "X,CRC32C,None"),
        ("DataDigest", "None"),
        ("MaxBurstLength", "16776192"),
        ("FirstBurstLength", "0x10000"),
        ("InitialR2T", "No"),
        ("MaxOutstandingR2T", "8"),
        ("MaxRecvDataSegmentLength", "4096"),
        ("ErrorRecoveryLevel", "2"),
        ("X-com.example", "1"),
    ]);
    let (step, text, flags) = ask(&mut login, 0x87, &pairs);
    assert_eq!((step, flags), (Step::Done, 0x87));
    for wanted in [
        "TargetPortalGroupTag=1 ",
        "HeaderDigest=CRC32C ",
        "DataDigest=None ",
        "MaxBurstLength=1048576 ",
        "FirstBurstLength=65536 ",
        "InitialR2T=No ",
        "MaxOutstandingR2T=1 ",
        "ErrorRecoveryLevel=0 ",
        "X-com.example=NotUnderstood ",
        "MaxRecvDataSegmentLength=262144 ",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert_eq!((login.params.segment_bytes, login.params.initial_r2t), (4096, false));
    assert_eq!(login.target.as_deref(), Some("iqn.b:t"));
}

#[test]
fn what_is_wrong_is_refused() {
    let (access, limits) = (Access::default(), Limits::default());
    let refused = |flags, pairs: &[(&str, &str)]| {
        let mut login = Login::new(&access, &limits, None);
        matches!(ask(&mut login, flags, pairs).0, Step::Refused(_))
    };
    assert!(!refused(0x87, &NORMAL));
    assert!(refused(0x87, &NORMAL[..1]) && refused(0x87, &NORMAL[1..]));
    // A transition backwards, to an unknown stage, from an unknown stage, and one with the bit C.
    assert!(refused(0x84, &NORMAL) && refused(0x86, &NORMAL) && refused(0x8b, &NORMAL) && refused(0xc7, &NORMAL));
    let mut wrong = NORMAL.to_vec();
    wrong.push(("MaxBurstLength", "1"));
    assert!(refused(0x87, &wrong));
    wrong[2] = ("InitialR2T", "Maybe");
    assert!(refused(0x87, &wrong));
}

#[test]
fn a_text_that_never_ends_is_refused() {
    let (access, limits) = (Access::default(), Limits::default());
    let mut login = Login::new(&access, &limits, None);
    let long = [("X-a", "1234567890123456789012345678901234567890")].repeat(100);
    for _ in 0..3 {
        assert_eq!(ask(&mut login, 0x44, &long).0, Step::More);
    }
    assert!(matches!(ask(&mut login, 0x44, &long).0, Step::Refused(reason) if reason.contains("too long")));
}

fn chap_access() -> Access {
    let account =
        |name: &str, secret: &str| Account { name: name.into(), secret: secret.into(), initiators: Vec::new() };
    Access {
        accounts: vec![account("me", "the secret of mine")],
        own: Some(account("it", "another secret")),
        ..Access::default()
    }
}

/// Logs in with CHAP up to the challenge; returns its identifier and bytes.
fn challenged(login: &mut Login<'_>) -> (u8, Vec<u8>) {
    let mut pairs = NORMAL.to_vec();
    pairs.push(("AuthMethod", "CHAP,None"));
    let (step, text, flags) = ask(login, 0x81, &pairs);
    assert_eq!((step, flags), (Step::More, 0));
    assert!(text.contains("AuthMethod=CHAP "), "{text}");
    let (step, text, _) = ask(login, 0, &[("CHAP_A", "9,5")]);
    assert_eq!(step, Step::More);
    let field = |key: &str| text.split(key).nth(1).and_then(|rest| rest.split(' ').next()).unwrap().to_owned();
    assert_eq!(field("CHAP_A="), "5");
    let challenge = field("CHAP_C=0x");
    let bytes = (0..challenge.len() / 2).map(|at| u8::from_str_radix(&challenge[2 * at..2 * at + 2], 16).unwrap());
    (field("CHAP_I=").parse().unwrap(), bytes.collect())
}

fn response(identifier: u8, secret: &str, challenge: &[u8]) -> String {
    let hash = Md5::digest([&[identifier], secret.as_bytes(), challenge].concat());
    hash.iter().fold("0x".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

#[test]
fn chap_lets_in_who_knows_the_secret() {
    let (access, limits) = (chap_access(), Limits::default());
    let mut login = Login::new(&access, &limits, None);
    let (identifier, challenge) = challenged(&mut login);
    let right = response(identifier, "the secret of mine", &challenge);
    let proof = [("CHAP_N", "me"), ("CHAP_R", &right), ("CHAP_I", "9"), ("CHAP_C", "0x0102")];
    let (step, text, flags) = ask(&mut login, 0x81, &proof);
    assert_eq!((step, flags), (Step::Entered, 0x81));
    assert!(text.contains("CHAP_N=it ") && text.contains(&response(9, "another secret", &[1, 2])), "{text}");
    assert_eq!(ask(&mut login, 0x87, &[]).0, Step::Done);
}

/// Makes the keys and values of a client's answer from identifier and challenge.
type Answer<'a> = &'a dyn Fn(u8, &[u8]) -> Vec<(&'static str, String)>;

#[test]
fn chap_keeps_out_who_does_not() {
    let (access, limits) = (chap_access(), Limits::default());
    let wrong = |proof: Answer<'_>| {
        let mut login = Login::new(&access, &limits, None);
        let (identifier, challenge) = challenged(&mut login);
        let proof = proof(identifier, &challenge);
        let pairs: Vec<_> = proof.iter().map(|(key, value)| (*key, value.as_str())).collect();
        assert!(matches!(ask(&mut login, 0x81, &pairs).0, Step::Refused(_)), "{pairs:?}");
    };
    let proof = |name: &str, response: String| vec![("CHAP_N", name.to_owned()), ("CHAP_R", response)];
    wrong(&|identifier, challenge| proof("me", response(identifier, "another secret", challenge)));
    wrong(&|identifier, challenge| proof("you", response(identifier, "", challenge)));
    wrong(&|_, _| proof("me", "0x".into()));
    wrong(&|_, _| Vec::new());
    // The target's own challenge, sent back.
    wrong(&|identifier, challenge| {
        let mut all = proof("me", response(identifier, "the secret of mine", challenge));
        let theirs = challenge.iter().fold("0x".to_owned(), |text, byte| format!("{text}{byte:02x}"));
        all.extend([("CHAP_I", identifier.to_string()), ("CHAP_C", theirs)]);
        all
    });
    // The security stage is skipped, or CHAP is not offered.
    for pairs in [&NORMAL[..], &[NORMAL[0], NORMAL[1], ("AuthMethod", "None")]] {
        let mut login = Login::new(&access, &limits, None);
        let flags = if pairs.len() == 2 { 0x87 } else { 0x83 };
        assert!(matches!(ask(&mut login, flags, pairs).0, Step::Refused(_)));
    }
}

/// Logs in with CHAP as `account`; returns the last step, and the account as which the initiator has authenticated.
fn chap_as(access: &Access, account: &str, secret: &str) -> (Step, Option<String>) {
    let limits = Limits::default();
    let mut login = Login::new(access, &limits, None);
    let (identifier, challenge) = challenged(&mut login);
    let right = response(identifier, secret, &challenge);
    let (step, ..) = ask(&mut login, 0x81, &[("CHAP_N", account), ("CHAP_R", &right)]);
    (step, login.account().map(str::to_owned))
}

#[test]
fn an_account_claims_only_the_names_that_it_is_bound_to() {
    let mut access = chap_access();
    access.accounts[0].initiators = vec!["iqn.other:*".parse().unwrap()];
    access.accounts.push(Account { name: "you".into(), secret: b"a third secret".to_vec(), initiators: Vec::new() });
    let (step, account) = chap_as(&access, "me", "the secret of mine");
    assert!(matches!(step, Step::Refused(reason) if reason.contains("bound to other")) && account.is_none());
    assert_eq!(chap_as(&access, "you", "a third secret"), (Step::Entered, Some("you".into())));
    access.accounts[0].initiators = vec!["IQN.A:I".parse().unwrap()];
    assert_eq!(chap_as(&access, "me", "the secret of mine"), (Step::Entered, Some("me".into())));
    assert!(matches!(chap_as(&access, "me", "a third secret"), (Step::Refused(_), None)));
}

#[test]
fn only_the_answer_to_a_challenge_is_a_claim() {
    let (access, limits) = (chap_access(), Limits::default());
    let mut login = Login::new(&access, &limits, None);
    let proof = text(&[("CHAP_N", "me"), ("CHAP_R", "0x00")]);
    assert_eq!(login.claim(&request(0x81), &proof), None);
    challenged(&mut login);
    assert_eq!(login.claim(&request(0x40), &proof), None, "it goes on");
    assert_eq!(login.claim(&request(0x81), &proof), Some("iqn.a:i me".into()));
    assert_eq!(login.claim(&request(0x81), b"nonsense"), Some("iqn.a:i ".into()), "it is checked, and wrong");
}

#[test]
fn names_are_taken_in_lower_case_and_invalid_ones_refused() {
    let (access, limits) = (Access::default(), Limits::default());
    let mut login = Login::new(&access, &limits, None);
    let pairs = [("InitiatorName", "IQN.A:Host"), ("TargetName", "IQN.b:T")];
    assert_eq!(ask(&mut login, 0x87, &pairs).0, Step::Done);
    assert_eq!((login.initiator.as_str(), login.target.as_deref()), ("iqn.a:host", Some("iqn.b:t")));
    for wrong in ["host", "iqn.a:a_b", "iqn.a:i\nreserved 1 iqn.a:j", "eui.1"] {
        for pairs in [[("InitiatorName", wrong), NORMAL[1]], [NORMAL[0], ("TargetName", wrong)]] {
            let mut login = Login::new(&access, &limits, None);
            assert!(matches!(ask(&mut login, 0x87, &pairs).0, Step::Refused(_)), "{wrong:?}");
        }
    }
}
