package main

import (
	"bytes"
	"fmt"
	"html"
)

const (
	plotWidth  = 900
	plotLabels = 210 // width of the names on the left
	plotFigure = 90  // width of the figures on the right
	barHeight  = 16
	barGap     = 6
	plotTop    = 56
)

// plot draws the processor time per operation as bars, the server's part and Redis' part, for the
// number of connections in the middle. Each operation has a scale of its own.
func (r *report) plot() []byte {
	points := r.plotted()
	longest := map[string]float64{}
	for _, p := range points {
		longest[p.Operation] = max(longest[p.Operation], p.micros(), 1)
	}
	var out bytes.Buffer
	height := plotTop + len(points)*(barHeight+barGap) + barGap
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", plotWidth, height)
	fmt.Fprintf(&out, `<rect width="100%%" height="100%%" fill="#ffffff"/>`+"\n")
	fmt.Fprintf(&out, `<text x="8" y="20" font-size="14">Processor time in microseconds: server (dark), Redis (light); each operation has its own scale</text>`+"\n")
	fmt.Fprintf(&out, `<text x="8" y="40" fill="#555555">%s</text>`+"\n", html.EscapeString(r.caption(points)))
	for i, p := range points {
		y := plotTop + i*(barHeight+barGap)
		scale := (plotWidth - plotLabels - plotFigure) / longest[p.Operation]
		server, redis := p.ServerMicros*scale, p.RedisMicros*scale
		fmt.Fprintf(&out, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", plotLabels-8, y+barHeight-4, html.EscapeString(p.Operation+", "+p.Server))
		fmt.Fprintf(&out, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="#1f4e79"/>`+"\n", plotLabels, y, server, barHeight)
		fmt.Fprintf(&out, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="#8fb4d9"/>`+"\n", plotLabels+server, y, redis, barHeight)
		fmt.Fprintf(&out, `<text x="%.1f" y="%d">%.0f</text>`+"\n", plotLabels+server+redis+6, y+barHeight-4, p.micros())
	}
	out.WriteString("</svg>\n")
	return out.Bytes()
}

// plotted are the points with the number of connections in the middle of those measured.
func (r *report) plotted() (points []point) {
	var seen []int
	for _, p := range r.Points {
		if len(seen) == 0 || p.Connections > seen[len(seen)-1] {
			seen = append(seen, p.Connections)
		}
	}
	for _, p := range r.Points {
		if p.Connections == seen[len(seen)/2] {
			points = append(points, p)
		}
	}
	return points
}

func (r *report) caption(points []point) string {
	connections := 0
	if len(points) > 0 {
		connections = points[0].Connections
	}
	return fmt.Sprintf("store %s, %d connections, %s, commit %s", r.Machine.Store, connections, r.Machine.Processor, r.Machine.Commit)
}
