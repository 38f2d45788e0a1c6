//! Pictures and films.

use std::fmt::Write;

use super::random;

/// A film of 352 by 288 points in planes of YUV 4:2:0: textures that move across each other, and noise.
pub fn film() -> Vec<u8> {
    const FRAMES: usize = 40;
    let (width, height) = (352usize, 288usize);
    let mut random = random(31);
    let texture: Vec<u8> = {
        let mut rough: Vec<i32> = (0..512 * 512).map(|_| random.below(256) as i32).collect();
        for _ in 0..3 {
            for at in 0..rough.len() - 513 {
                rough[at] = (2 * rough[at] + rough[at + 1] + rough[at + 512]) / 4;
            }
        }
        rough.iter().map(|value| (*value).clamp(0, 255) as u8).collect()
    };
    let point = |x: usize, y: usize| texture[(y % 512) * 512 + x % 512];
    let mut film = Vec::with_capacity(FRAMES * width * height * 3 / 2);
    for frame in 0..FRAMES {
        for y in 0..height {
            for x in 0..width {
                let is_near = (x + 3 * frame) % 120 < 50 && (y + 2 * frame) % 90 < 40;
                let value = match is_near {
                    true => point(2 * x + 5 * frame, 2 * y + frame),
                    false => point(x / 2 + frame, y / 2 + 2 * frame) / 2 + 60,
                };
                film.push(value.saturating_add(random.below(6) as u8));
            }
        }
        for plane in 0..2 {
            for y in 0..height / 2 {
                for x in 0..width / 2 {
                    film.push(96 + point(x / 4 + frame + 99 * plane, y / 4 + frame) / 4);
                }
            }
        }
    }
    film
}

/// A scene for a ray tracer: balls of glass, metal and stone over a chessboard.
pub fn scene() -> Vec<u8> {
    let mut random = random(32);
    let mut text = String::from(
        "#version 3.7;\nglobal_settings { assumed_gamma 1.0 max_trace_level 6 }\n\
         camera { location <0, 9, -22> look_at <0, 2, 0> }\n\
         light_source { <30, 40, -30> rgb 1 }\nlight_source { <-20, 25, -10> rgb 0.4 }\n\
         plane { y, 0 pigment { checker rgb 0.9, rgb 0.2 } finish { reflection 0.15 } }\n",
    );
    for _ in 0..700 {
        let mut at = |range: u64| random.below(range) as f64 / 100.0;
        let (x, y, z, r) = (at(2800) - 14.0, at(900), at(2800) - 14.0, 0.2 + at(70));
        let (red, green, blue) = (at(100), at(100), at(100));
        let look = match random.below(4) {
            0 => format!(
                "pigment {{ rgbf <{red:.2}, {green:.2}, {blue:.2}, 0.8> }} \
                 interior {{ ior 1.5 }} finish {{ specular 0.8 reflection 0.1 }}"
            ),
            1 => format!(
                "pigment {{ rgb <{red:.2}, {green:.2}, {blue:.2}> }} \
                 finish {{ reflection 0.6 specular 0.5 }}"
            ),
            2 => format!(
                "pigment {{ marble turbulence 0.8 color_map {{ [0 rgb <{red:.2}, {green:.2}, \
                 {blue:.2}>] [1 rgb 0.9] }} scale 0.5 }} normal {{ bumps 0.3 scale 0.1 }}"
            ),
            _ => format!("pigment {{ rgb <{red:.2}, {green:.2}, {blue:.2}> }}"),
        };
        let _ = writeln!(text, "sphere {{ <{x:.2}, {y:.2}, {z:.2}>, {r:.2} {look} }}");
    }
    text.into_bytes()
}
