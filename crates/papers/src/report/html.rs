//! The report as one HTML file without scripts.

use super::{Report, overview, svg, verdicts};
use crate::report::{Chart, Holds, Section, Table, Verdict};
use std::fmt::Write;

/// Colours for light and dark mode; those of the lines are from Okabe and Ito's palette, which is distinguishable with
/// colour blindness.
const STYLE: &str = "\
:root{--bg:#fff;--fg:#1b1b1b;--dim:#5c5c5c;--rule:#d0d0d0;--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#b5559c;--c4:#8a6d00;--c5:#3a3a3a;--c6:#56b4e9;--c7:#7a7a1f;--c8:#882255;--c9:#2f9c8c;
--good:#00684a;--half:#7a5a00;--bad:#a40000}
@media(prefers-color-scheme:dark){:root{--bg:#16181b;--fg:#e6e6e6;--dim:#a5a5a5;--rule:#44484d;--c0:#5db3f0;--c1:#ff9050;--c2:#3fd3a5;--c3:#e89ad0;
--c4:#e8cf57;--c5:#c9c9c9;--c6:#9ad1f5;--c7:#c9c96b;--c8:#d87aa8;--c9:#7fd6c8;--good:#4fd6a8;--half:#eac55a;--bad:#ff8a80}}
body{background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}
h1,h2{line-height:1.2}h2{margin-top:2.5rem}p.how{color:var(--dim)}
table{border-collapse:collapse;font-size:.9rem;margin:.8rem 0;display:block;overflow-x:auto}caption{text-align:left;font-weight:600;padding:.3rem 0}
th,td{border-bottom:1px solid var(--rule);padding:.25rem .7rem;text-align:right;vertical-align:top}
th:first-child,td:first-child{text-align:left}
.paper{display:grid;grid-template-columns:11rem 1fr;gap:.2rem 1rem;align-items:center;margin:.9rem 0}.paper b{font-size:1.05rem}
.stack{display:flex;height:1.4rem;border-radius:.3rem;overflow:hidden;font:600 .8rem/1.4rem system-ui,sans-serif;text-align:center}
.stack span{background:currentColor}.stack i{font-style:normal;color:var(--bg)}
.chips{grid-column:2;font-size:.85rem;line-height:1.8}.chips a{border:1px solid;border-radius:.3rem;padding:0 .35rem;margin-right:.15rem;text-decoration:none}
.claim{border-top:1px solid var(--rule);padding:.6rem 0}.claim p{margin:.25rem 0;overflow-wrap:anywhere}.claim .says{color:var(--dim);font-style:italic}
@media(max-width:40rem){.paper{grid-template-columns:1fr}.chips{grid-column:1}}
.charts{display:flex;flex-wrap:wrap;gap:1rem}figure{margin:0;flex:1 1 27rem;min-width:0}figcaption{font-weight:600}svg{width:100%;height:auto}
svg text{fill:var(--fg);font:12px system-ui,sans-serif}svg .dim{fill:var(--dim)}svg .rule{stroke:var(--rule);stroke-width:1}
.s0{--c:var(--c0)}.s1{--c:var(--c1)}.s2{--c:var(--c2)}.s3{--c:var(--c3)}.s4{--c:var(--c4)}.s5{--c:var(--c5)}.s6{--c:var(--c6)}.s7{--c:var(--c7)}.s8{--c:var(--c8)}.s9{--c:var(--c9)}
.line{fill:none;stroke:var(--c);stroke-width:2}.mark,.bar{fill:var(--c)}.cell{fill:var(--c0)}
.holds,.better{color:var(--good);font-weight:600}.in-direction{color:var(--half);font-weight:600}.does-not,.explained-by-trace{color:var(--bad);font-weight:600}
.not-judged,.not-comparable{color:var(--dim);font-weight:600}details{font-size:.9rem;color:var(--dim)}";

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Converts `*emphasis*` and `**strong emphasis**` of a paragraph to HTML.
fn emphasised(text: &str) -> String {
    let mut out = String::new();
    for (number, part) in text.split("**").enumerate() {
        let strong = number % 2 == 1;
        out += if strong { "<strong>" } else { "" };
        for (number, part) in part.split('*').enumerate() {
            let _ = if number % 2 == 1 {
                write!(out, "<em>{}</em>", escaped(part))
            } else {
                write!(out, "{}", escaped(part))
            };
        }
        out += if strong { "</strong>" } else { "" };
    }
    out
}

/// The whole page.
pub(super) fn page(report: &Report) -> String {
    let title = escaped(report.title);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><meta name=\"color-scheme\" content=\"light dark\">\
         <title>{title}</title><style>{STYLE}</style></head><body>\n\
         <h1>{title}</h1>\n<p>Made by <code>{}</code> (nitro {}), in {:.0} s.</p>\n",
        escaped(&report.command),
        report.version,
        report.seconds
    );
    let verdicts = verdicts(report);
    out += &summary(&verdicts);
    out += &format!("<h2>Method</h2>\n<p>{}</p>\n", emphasised(&report.about));
    out += &claims(&verdicts);
    for section in &report.sections {
        out += &part(section);
    }
    if !report.failures.is_empty() {
        out += "<h2>Could not be run</h2><ul>";
        report.failures.iter().for_each(|failure| out += &format!("<li>{}</li>", escaped(failure)));
        out += "</ul>";
    }
    out + "</body></html>\n"
}

fn part(section: &Section) -> String {
    let mut out = format!("<section id=\"{}\"><h2>{}</h2>\n", section.id, escaped(&section.title));
    out += &format!("<p class=\"how\">{}</p>\n", emphasised(&section.text));
    out += "<div class=\"charts\">";
    for chart in &section.charts {
        out += &figure(chart);
    }
    out += "</div>\n";
    for one in &section.tables {
        out += &table(one);
    }
    if !section.verdicts.is_empty() {
        let names = section.verdicts.iter().map(|verdict| link(verdict, verdict.holds.words()));
        out += &format!("<p class=\"chips\">Verdicts: {}</p>\n", names.collect::<Vec<_>>().join(" "));
    }
    out + "</section>\n"
}

/// A chart, with its figures as a table for screen readers.
fn figure(chart: &Chart) -> String {
    let drawn = svg::draw(chart);
    let figures = svg::figures(chart);
    format!(
        "<figure><figcaption>{}</figcaption>{drawn}<details><summary>figures</summary>{}</details></figure>\n",
        escaped(svg::title(chart)),
        table(&figures)
    )
}

fn table(table: &Table) -> String {
    let mut out = "<table>".to_owned();
    if !table.title.is_empty() {
        out += &format!("<caption>{}</caption>", escaped(&table.title));
    }
    out += "<thead><tr>";
    table.columns.iter().for_each(|column| out += &format!("<th scope=\"col\">{}</th>", escaped(column)));
    out += "</tr></thead><tbody>";
    for row in &table.rows {
        out += "<tr>";
        row.iter().for_each(|cell| out += &format!("<td>{}</td>", escaped(cell)));
        out += "</tr>";
    }
    out + "</tbody></table>\n"
}

fn class(holds: Holds) -> &'static str {
    match holds {
        Holds::Holds => "holds",
        Holds::Better => "better",
        Holds::InDirection => "in-direction",
        Holds::NotComparable => "not-comparable",
        Holds::NotJudged => "not-judged",
        Holds::ExplainedByTrace => "explained-by-trace",
        Holds::DoesNot => "does-not",
    }
}

/// How many claims of each paper have which verdict, with links to the claims.
fn summary(verdicts: &[&Verdict]) -> String {
    let counts = overview::counts(verdicts);
    let mut out = format!("<p><strong>{} verdicts</strong>: {}.</p>\n", verdicts.len(), overview::words(&counts));
    for paper in overview::by_paper(verdicts) {
        let counts = paper.counts();
        let words = overview::words(&counts);
        out += &format!(
            "<div class=\"paper\"><b>{}</b><div class=\"stack\" role=\"img\" aria-label=\"{words}\">",
            paper.name
        );
        for (holds, count) in counts {
            let words = holds.words();
            out += &format!(
                "<span class=\"{}\" style=\"flex:{count}\" title=\"{count} {words}\"><i>{count}</i></span>",
                class(holds)
            );
        }
        let links = paper.verdicts.iter().map(|verdict| link(verdict, ""));
        out += &format!("</div><div class=\"chips\">{}</div></div>\n", links.collect::<Vec<_>>().join(" "));
    }
    out
}

/// A link to a claim, in the colour of its verdict.
fn link(verdict: &Verdict, words: &str) -> String {
    let (id, words) = (verdict.id, format!("{} {words}", verdict.id));
    let (class, title) = (class(verdict.holds), verdict.holds.words());
    format!("<a class=\"{class}\" href=\"#claim-{id}\" title=\"{title}\">{}</a>", words.trim_end())
}

/// All claims with their figures and reasons, as text.
fn claims(verdicts: &[&Verdict]) -> String {
    let mut out = "<h2>Claims</h2>\n".to_owned();
    let mut last = "";
    for verdict in verdicts {
        // A claim that two methods judged has the same identifier twice.
        let anchor = if last == verdict.id { String::new() } else { format!(" id=\"claim-{}\"", verdict.id) };
        last = verdict.id;
        let reason =
            if verdict.reason.is_empty() { String::new() } else { format!("<p>{}</p>", escaped(&verdict.reason)) };
        out += &format!(
            "<div class=\"claim\"{anchor}><b>{}</b> <span class=\"{}\">{}</span><p class=\"says\">{}</p>\
             <p>Here: {}</p>{reason}</div>\n",
            verdict.id,
            class(verdict.holds),
            verdict.holds.words(),
            escaped(verdict.claim),
            escaped(&verdict.found)
        );
    }
    out
}
