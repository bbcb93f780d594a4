//! Writes the seed corpora of the readers of traces: `cd fuzz && cargo run --example trace_seeds`.

use nitro_trace::parquet::ParquetWriter;
use nitro_trace::synth::FiuLike;
use nitro_trace::{Format, Reader};
use std::error::Error;
use std::io::Read;
use std::path::Path;

fn save(target: &str, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join(name), bytes)
}

const MD5: &str = "2c4787c7671c2f638777c4ab72859ce1";

fn lines() -> [(Format, String); 10] {
    let sectors = MD5.repeat(8);
    [
        (Format::Fiu, format!("1 2 p q 8 8 W 6 0 {MD5}\n3 4 p 8 8 R 6 0 {sectors}\n5\t6\t7\tp\t8\t8\tR\t6\t0\t{MD5}\n")),
        (Format::Msr, "128166385295514663,hm,0,Write,9056014336,2048,2833\n128166385295514663,hm,1,Read,0,1,2\n".into()),
        (Format::Systor, "Timestamp,Response,IOType,LUN,Offset,Size\n1456095145.133076000,0.0008,R,0,899056122368,131072\n1.5,,,1,2,3\n".into()),
        (Format::CloudPhysicsCsv, "version,time,op,size,lbn\n1,5633898,2a,512,42932745\n2,5.5,28,512,42\n".into()),
        (Format::Tencent, "1538323200,4247200,128,1,1058\n1538323200,4247200,128,0,1058\n".into()),
        (Format::Alibaba, "3,R,126703644672,4096,1577808000000626\r\n725,W,8192,16384,1577808000000668\r\n".into()),
        (Format::Spc, "0,303567,3584,w,0.026214\n1,55590,3072,R,0.5,x\n".into()),
        (Format::DiskSim, "938513000 4 264719034 16 0\n1.5 4 264719034 16 1\n".into()),
        (Format::Arc, "# a comment\n230027 8 0 0\n1842745 64 0 1\n".into()),
        (Format::Blkparse, "  8,0 3 1 0.000000000 697 Q W 223490 + 8 [k x]\n8,0 3 2 1.0 697 Q FWS [s]\n8,0 3 3 2.0 0 C DS 8 + 8 [0]\nCPU0 (8,0):\n".into()),
    ]
}

fn binary() -> std::io::Result<()> {
    let mut vscsi = vec![0];
    let mut vscsi2 = vec![0];
    let mut oracle = vec![1];
    for n in 0..3u64 {
        let numbers = [&n.to_le_bytes()[..], &(1000 + n).to_le_bytes()].concat();
        vscsi.extend([&[7, 0, 0, 0, 0, 16, 0, 0, 1, 0, 0, 0, 0x28, 0, 0, 1][..], &numbers].concat());
        vscsi2.extend([&[0x2A, 0, 0, 2, 7, 0, 0, 0, 0, 16, 0, 0, 1, 0, 0, 0][..], &numbers, &[9; 8]].concat());
        oracle.extend([&[5, 0, 0, 0][..], &n.to_le_bytes(), &[0, 2, 0, 0], &[0xFF; 8]].concat());
    }
    save("trace_binary", "vscsi", &vscsi)?;
    save("trace_binary", "vscsi-2", &vscsi2)?;
    save("trace_binary", "oracle-general", &oracle)?;
    let record = |action: u32, payload: u8| {
        let mut record =
            [&0x6561_7407u32.to_le_bytes()[..], &[1; 20], &[0, 16, 0, 0], &action.to_le_bytes(), &[2; 16]].concat();
        record[46..48].copy_from_slice(&[payload, 0]);
        record.resize(48 + usize::from(payload), b'x');
        record
    };
    let records = [vec![2], record(1 << 26, 5), record(1 << 16 | 1, 0), vec![7; 9], record(1 << 17 | 1, 3)];
    save("trace_binary", "blktrace", &records.concat())
}

fn compressed() -> std::io::Result<()> {
    let text = &b"230027 8 0 0\n1842745 64 0 1\n"[..];
    let (mut gzip, mut bzip2, mut xz) = (vec![0], vec![0], vec![0]);
    flate2::read::GzEncoder::new(text, flate2::Compression::fast()).read_to_end(&mut gzip)?;
    bzip2::read::BzEncoder::new(text, bzip2::Compression::fast()).read_to_end(&mut bzip2)?;
    liblzma::read::XzEncoder::new(text, 0).read_to_end(&mut xz)?;
    let zstd = [&[0][..], &zstd::bulk::compress(text, 1)?].concat();
    for (number, (name, bytes)) in (1..).zip([("gzip", gzip), ("zstd", zstd), ("bzip2", bzip2), ("xz", xz)]) {
        save("trace_compressed", name, &bytes)?;
        save("trace_compressed", &format!("to-{name}"), &[&[number][..], text].concat())?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    for (format, text) in lines() {
        let number = Format::ALL.iter().position(|other| *other == format).ok_or("a format is missing")? as u8;
        save("trace_text", format.as_str(), &[&[number], text.as_bytes()].concat())?;
        save("trace_text", &format!("{}-unnamed", format.as_str()), &[&[31], text.as_bytes()].concat())?;
    }
    binary()?;
    compressed()?;
    let maps = [
        "time=0:ms,op=3,offset=4:sectors,len=5:sectors,object=1,compressed=6\n1.5,7,,READ,8,16,4000\n2,8,,w,9,1,\n"
            .to_owned(),
        "offset=2:4kib,op=0:read0,sep=space,object=1,skip=1\nx\n0 sda 1\n1  sdb 2\n".to_owned(),
        format!("offset=0,len=1,fingerprint=2,sep=pipe\n0|8192|{MD5}{MD5}\n4096|512|\n"),
        "time=0:filetime,op=1:scsi,offset=2:512,sep=tab\n116444736000000010\t2a\t5\n".to_owned(),
    ];
    for (number, map) in maps.iter().enumerate() {
        save("trace_columns", &number.to_string(), map.as_bytes())?;
    }
    let mut parquet = vec![0];
    let mut writer = ParquetWriter::new(&mut parquet, &[("source", "a seed")])?;
    for request in FiuLike::web_vm(0.001, 1).reader()?.requests().take(20) {
        writer.write(&request?)?;
    }
    writer.finish()?;
    save("trace_parquet", "file", &parquet)?;
    save("trace_parquet", "requests", &[[1].as_slice(), &[7; 200]].concat())?;
    Ok(())
}
