//! Text, and programs that work on text.

use std::fmt::Write;

use outlast_workloads::Random;

use super::random;

/// Syllables of words.
const SYLLABLES: [&str; 24] = [
    "an", "ber", "co", "den", "el", "fra", "gor", "hi", "in", "ka", "lo", "mer", "ni", "or", "per",
    "qua", "ri", "sto", "ta", "un", "vel", "wi", "ya", "ze",
];

/// A word: the lower its number, the more often it comes.
fn word(random: &mut Random, into: &mut String) {
    let rank = (8192.0f64).powf(random.unit()) as usize;
    let mut rest = rank;
    loop {
        into.push_str(SYLLABLES[rest % SYLLABLES.len()]);
        rest /= SYLLABLES.len();
        if rest == 0 {
            return;
        }
    }
}

/// Two megabytes: prose, tables of numbers, and bytes without order.
pub fn text() -> Vec<u8> {
    const BYTES: usize = 2 << 20;
    let mut random = random(1);
    let mut text: Vec<u8> = Vec::with_capacity(BYTES);
    let mut line = String::new();
    while text.len() < BYTES {
        line.clear();
        match random.below(8) {
            0 => {
                for _ in 0..8 {
                    let number = random.below(100_000);
                    let _ = write!(line, "{number:>8}");
                }
            }
            1 => {
                let bytes: Vec<u8> = (0..64).map(|_| random.next_u64() as u8).collect();
                text.extend_from_slice(&bytes);
            }
            _ => {
                for _ in 0..4 + random.below(12) {
                    word(&mut random, &mut line);
                    line.push(' ');
                }
            }
        }
        text.extend_from_slice(line.as_bytes());
        text.push(b'\n');
    }
    text
}

/// A filter of mails: patterns, substitutions, hashes of words, sorting.
pub fn perl_script() -> Vec<u8> {
    let mut random = random(2);
    let mut words = String::new();
    for _ in 0..3000 {
        word(&mut random, &mut words);
        words.push(' ');
    }
    format!(
        r#"use strict; use warnings;
my @words = split ' ', '{words}';
my $seed = 12345;
sub draw {{ $seed = ($seed * 1103515245 + 12345) % 2147483648; return $seed % $_[0] }}
my (%score, %seen, @kept);
for my $mail (1 .. 1000000) {{
    my $body = join ' ', map {{ $words[draw(scalar @words)] . (draw(9) ? '' : draw(10000)) }} 1 .. 60;
    my $head = "From: $words[draw(scalar @words)]\@$words[draw(scalar @words)].org\nSubject: " . substr($body, 0, 40);
    my $points = 0;
    $points += 2 while $body =~ /\b(?:an|qua)\w*(?:ta|ri)\b/g;
    $points += 3 if $head =~ /^Subject: .*\d{{2,}}/m;
    (my $plain = lc $body) =~ s/[^a-z ]+/ /g;
    for my $word (split ' ', $plain) {{
        $seen{{$word}}++;
        $score{{$word}} += $points;
        $score{{$word . $mail % 64}} = $mail;
    }}
    push @kept, $head . "\n" . $plain if $points > 4;
    if (@kept > 500) {{
        @kept = sort {{ length $a <=> length $b || $a cmp $b }} @kept;
        splice @kept, 0, 250;
    }}
}}
print scalar(keys %score), "\n";
"#
    )
    .into_bytes()
}

/// An XML document: a catalogue with cross references.
pub fn page() -> Vec<u8> {
    const ITEMS: u64 = 12_000;
    let mut random = random(3);
    let mut text = String::from("<?xml version=\"1.0\"?>\n<catalogue>\n");
    for item in 0..ITEMS {
        let (other, price) = (random.below(ITEMS), random.below(100_000));
        let _ = write!(text, "<item id=\"i{item}\" see=\"i{other}\" price=\"{price}\"><name>");
        word(&mut random, &mut text);
        text.push_str("</name><about>");
        for _ in 0..4 + random.below(8) {
            word(&mut random, &mut text);
            text.push(' ');
        }
        let _ = writeln!(text, "</about><kind>k{}</kind></item>", random.below(40));
    }
    text.push_str("</catalogue>\n");
    text.into_bytes()
}

/// What is made of it: a page with sorted tables, one for each kind.
pub fn page_style() -> Vec<u8> {
    br#"<?xml version="1.0"?>
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
<xsl:key name="by-id" match="item" use="@id"/>
<xsl:key name="by-kind" match="item" use="kind"/>
<xsl:template match="/catalogue"><html><body>
<xsl:for-each select="item[generate-id() = generate-id(key('by-kind', kind)[1])]">
<xsl:sort select="kind"/>
<h1><xsl:value-of select="kind"/> (<xsl:value-of select="sum(key('by-kind', kind)/@price)"/>)</h1>
<table><xsl:for-each select="key('by-kind', kind)">
<xsl:sort select="name"/><xsl:sort select="@price" data-type="number" order="descending"/>
<tr class="{position() mod 2}"><td><xsl:value-of select="translate(name, 'aeiou', 'AEIOU')"/></td>
<td><xsl:apply-templates select="key('by-id', @see)/about"/></td>
<td><xsl:value-of select="format-number(@price div 100, '0.00')"/></td></tr>
</xsl:for-each></table></xsl:for-each></body></html></xsl:template>
<xsl:template match="about"><i><xsl:value-of select="substring-before(concat(normalize-space(.), ' '), ' ')"/>
<xsl:if test="contains(., 'qua')">!</xsl:if></i></xsl:template>
</xsl:stylesheet>
"#
    .to_vec()
}
