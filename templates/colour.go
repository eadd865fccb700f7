package templates

import (
	"fmt"
	"math"
	"strconv"
)

// colour is an sRGB colour.
type colour [3]uint8

// parseColour reads "#rrggbb".
func parseColour(s string) (colour, error) {
	n, err := strconv.ParseUint(s[min(1, len(s)):], 16, 32)
	if err != nil || len(s) != 7 || s[0] != '#' {
		return colour{}, fmt.Errorf("the colour %q must be like #0c6b58: a # and six hexadecimal digits", s)
	}
	return colour{uint8(n >> 16), uint8(n >> 8), uint8(n)}, nil
}

func (c colour) String() string { return fmt.Sprintf("#%02x%02x%02x", c[0], c[1], c[2]) }

// luminance returns the relative luminance (WCAG 2.2, "relative luminance").
func (c colour) luminance() float64 {
	linear := func(v uint8) float64 {
		s := float64(v) / 255
		if s <= 0.04045 {
			return s / 12.92
		}
		return math.Pow((s+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(c[0]) + 0.7152*linear(c[1]) + 0.0722*linear(c[2])
}

// contrast returns the contrast ratio of two colours (WCAG 2.2, "contrast ratio").
func contrast(a, b colour) float64 {
	x, y := a.luminance(), b.luminance()
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// mixed returns the colour with a part of another, from 0 to 1.
func (c colour) mixed(other colour, part float64) colour {
	for i := range c {
		c[i] = uint8(math.Round(float64(c[i])*(1-part) + float64(other[i])*part))
	}
	return c
}

var (
	white = colour{255, 255, 255}
	black = colour{}
	// The grounds that links and borders stand on, those of style.css.
	lightGrounds = []colour{{0xff, 0xff, 0xff}, {0xf3, 0xf5, 0xf4}}
	darkGrounds  = []colour{{0x19, 0x1f, 0x1d}, {0x10, 0x15, 0x14}}
)

// minContrast is the least contrast of text (WCAG 2.2, 1.4.3, level AA).
const minContrast = 4.5

// legible returns the colour, mixed with as little of another as makes text in it legible on
// each ground.
func (c colour) legible(grounds []colour, with colour) colour {
	for part := 0.0; part <= 1; part += 0.02 {
		m, least := c.mixed(with, part), math.Inf(1)
		for _, ground := range grounds {
			least = min(least, contrast(m, ground))
		}
		if least >= minContrast {
			return m
		}
	}
	return with
}

// palette returns the style that makes c the colour of the pages: as it is behind the text of
// the main button, which is white or black, whichever is more legible, and a legible shade of
// it for links and borders. Under the pointer the button moves away from its text.
func (c colour) palette() string {
	text, away := white, black
	if contrast(c, black) > contrast(c, white) {
		text, away = black, white
	}
	variables := func(accent, hover colour) string {
		return fmt.Sprintf(":root{--accent:%s;--accent-hover:%s;--fill:%s;--fill-hover:%s;--on-fill:%s}", accent, hover, c, c.mixed(away, 0.15), text)
	}
	light, dark := c.legible(lightGrounds, black), c.legible(darkGrounds, white)
	return "\n" + variables(light, light.mixed(black, 0.2)) +
		"\n@media screen and (prefers-color-scheme:dark){" + variables(dark, dark.mixed(white, 0.2)) + "}\n"
}
