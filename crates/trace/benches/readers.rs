//! Records per second and core: `cargo bench -p nitro-trace [NAME...]`.

use nitro_trace::content::{Contents, Extents};
use nitro_trace::parquet::{ParquetReader, ParquetWriter};
use nitro_trace::synth::{BootStorm, FiuLike, Zipf, boot_template};
use nitro_trace::{BadRecords, Format, Options, Reader, Request, TraceError, convert, open_stream, summarize};
use std::fmt::Write;
use std::hint::black_box;
use std::io::Cursor;
use std::time::Instant;

const RECORDS: u64 = 1_000_000;
const ROUNDS: u32 = 3;

/// Prints the best of a few rounds.
fn measure<R: Reader>(name: &str, mut make: impl FnMut() -> Result<R, TraceError>) -> Result<(), TraceError> {
    let wanted: Vec<_> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    if !wanted.is_empty() && !wanted.iter().any(|wanted| name.contains(wanted.as_str())) {
        return Ok(());
    }
    let mut best = 0.0f64;
    for _ in 0..ROUNDS {
        let mut reader = make()?;
        let mut request = Request::default();
        let start = Instant::now();
        let mut records = 0;
        while reader.next(&mut request)? {
            black_box(&request);
            records += 1;
        }
        best = best.max(f64::from(records) / start.elapsed().as_secs_f64());
    }
    println!("{name:<24} {:>8.2} million/s", best / 1e6);
    Ok(())
}

/// A trace as text, a line for each request by `line`: its number and an address.
fn text(line: impl Fn(&mut String, u64, u64) -> std::fmt::Result) -> Vec<u8> {
    let mut text = String::new();
    for number in 0..RECORDS {
        let address = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 35;
        if line(&mut text, number, address).is_ok() {
            text.push('\n');
        }
    }
    text.into_bytes()
}

fn main() -> Result<(), TraceError> {
    const MD5: &str = "2c4787c7671c2f638777c4ab72859ce1";
    let sectors = MD5.repeat(8);
    let texts = [
        (
            "fiu, per 4 KiB",
            Format::Fiu,
            text(|t, n, a| write!(t, "{} 4257 nfsd {} 8 W 6 0 {MD5}", 89_966_811_921_625 + n, a * 8)),
        ),
        (
            "fiu, per sector",
            Format::Fiu,
            text(|t, n, a| write!(t, "{} 4257 nfsd {} 8 W 6 0 {sectors}", 89_966_811_921_625 + n, a * 8)),
        ),
        (
            "msr",
            Format::Msr,
            text(|t, n, a| write!(t, "{},hm,0,Write,{},4096,2833", 128_166_385_295_514_663 + n, a * 4096)),
        ),
        (
            "systor",
            Format::Systor,
            text(|t, n, a| write!(t, "145609514{}.133076000,0.000806000,R,0,{},4096", n % 10, a * 4096)),
        ),
        (
            "cloudphysics csv",
            Format::CloudPhysicsCsv,
            text(|t, n, a| write!(t, "1,{},2a,512,{a}", 5_633_898 + n / 1000)),
        ),
        ("tencent", Format::Tencent, text(|t, n, a| write!(t, "{},{a},8,1,{}", 1_538_323_200 + n / 1000, n % 2038))),
        (
            "alibaba",
            Format::Alibaba,
            text(|t, n, a| write!(t, "{},W,{},4096,{}", n % 1000, a * 4096, 1_577_808_000_000_626 + n)),
        ),
        ("spc", Format::Spc, text(|t, n, a| write!(t, "{},{a},4096,w,{}.026214", n % 20, n / 1000))),
        ("disksim", Format::DiskSim, text(|t, n, a| write!(t, "{n} {} {a} 16 0", n % 10))),
        ("arc", Format::Arc, text(|t, n, a| write!(t, "{a} 8 0 {n}"))),
        (
            "blkparse",
            Format::Blkparse,
            text(|t, n, a| write!(t, "  8,0    3 {n:>8} {:>5}.000001829   697  Q   W {a} + 8 [kjournald]", n / 1000)),
        ),
    ];
    for (name, format, text) in &texts {
        let options = Options { format: Some(*format), ..Options::default() };
        measure(name, || open_stream(Cursor::new(text.clone()), &options))?;
    }
    let map = Some("object=0,op=1,offset=2,len=3,time=4:us".parse()?);
    let columns = Options { columns: map, ..Options::default() };
    measure("columns", || open_stream(Cursor::new(texts[6].2.clone()), &columns))?;

    let record = |n: u64| [&5u32.to_le_bytes()[..], &n.to_le_bytes(), &512u32.to_le_bytes(), &[0xFF; 8]].concat();
    let oracle: Vec<u8> = (0..RECORDS).flat_map(record).collect();
    measure("oracleGeneral", || open_stream(Cursor::new(oracle.clone()), &Options::default()))?;

    let zipf = || Zipf { requests: RECORDS, ..Zipf::default() }.reader();
    let mail = || FiuLike::mail(0.0125, 1).reader();
    let mut parquet = Vec::new();
    convert(&mut zipf()?, ParquetWriter::new(&mut parquet, &[])?)?;
    let plain = bytes::Bytes::from(parquet);
    let mut parquet = Vec::new();
    convert(&mut mail()?, ParquetWriter::new(&mut parquet, &[])?)?;
    let content = bytes::Bytes::from(parquet);
    measure("parquet", || ParquetReader::new(plain.clone(), BadRecords::Fatal))?;
    measure("parquet with content", || ParquetReader::new(content.clone(), BadRecords::Fatal))?;
    measure("zipf", zipf)?;
    measure("fiu-like", mail)?;
    measure("boot storm", || BootStorm::new(boot_template(1), 400, 1).reader())?;
    measure("extents of 8 KiB", || Ok(Extents::new(mail()?, Contents::new(8192)?)))?;

    let start = Instant::now();
    let summary = summarize(&mut mail()?)?;
    println!(
        "{:<24} {:>8.2} million/s",
        "summary with content",
        summary.requests as f64 / start.elapsed().as_secs_f64() / 1e6
    );
    Ok(())
}
