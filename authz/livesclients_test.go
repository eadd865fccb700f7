package authz_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// aim returns a random resource parameter: one of those that were allowed, another one, or none.
func (l *life) aim(g *modelGrant) []string {
	switch l.random.IntN(5) {
	case 0:
		return nil
	case 1:
		return []string{pick(l.random, livesResources)}
	}
	return []string{pick(l.random, slices.Sorted(maps.Keys(g.allowed)))}
}

func (l *life) redeem() bool {
	l.t.Helper()
	g := l.someGrant(func(g *modelGrant) bool { return !g.redeemed })
	if g == nil {
		return false
	}
	at := l.aim(g)
	l.tell("%s redeems a code of %s for %q", g.client.ID, g.person, at)
	want := l.expectToken(g, strings.Join(at, ""))
	if l.got(g, l.h.toToken(g.client, naming(redemption(g.client, g.code), at...)), want) {
		g.redeemed, g.ends = true, l.now().Add(livesMax)
	}
	return true
}

func (l *life) refresh() bool {
	l.t.Helper()
	g := l.someGrant(func(g *modelGrant) bool { return g.redeemed })
	if g == nil {
		return false
	}
	at := l.aim(g)
	l.tell("%s refreshes for %s at %q", g.client.ID, g.person, at)
	values := naming(refreshing(g.client, g.refresh()), at...)
	want := l.expectToken(g, strings.Join(at, ""))
	if want != nil && l.random.IntN(4) == 0 {
		want.scopes = some(l.random, want.scopes)
		values.Set("scope", strings.Join(want.scopes, " "))
	}
	if l.got(g, l.h.toToken(g.client, values), want) {
		g.rotated = l.now()
	}
	return true
}

// got compares an answer of the token endpoint with what was expected, keeps its tokens, and reports
// whether there were any.
func (l *life) got(g *modelGrant, answer reply, want *modelToken) bool {
	l.t.Helper()
	if ok := answer.status == http.StatusOK; !ok || want == nil {
		l.tell("  refused: %d %s", answer.status, answer.body)
		if ok || want != nil {
			l.t.Errorf("got %s, want a token: %t", answer, want != nil)
		}
		return false
	}
	if got := slices.Sorted(slices.Values(strings.Fields(answer.member(l.t, "scope")))); !slices.Equal(got, want.scopes) {
		l.t.Errorf("a token for %s has %v, want %v", want.at, got, want.scopes)
	}
	if g.audience == "" {
		g.audience, g.ends = want.at, l.now().Add(livesMax)
	}
	g.idle = l.now().Add(livesIdle)
	want.text, want.ends = answer.member(l.t, "access_token"), l.now().Add(livesAccess)
	if g.ends.Before(want.ends) {
		want.ends = g.ends
	}
	l.tokens, g.refreshes = append(l.tokens, want), append(g.refreshes, answer.member(l.t, "refresh_token"))
	l.tell("  a token for %s with %v", want.at, want.scopes)
	return true
}

func (l *life) replayCode() bool {
	l.t.Helper()
	g := l.someGrant(func(g *modelGrant) bool { return g.redeemed })
	if g == nil {
		return false
	}
	l.tell("%s sends a used code of %s", g.client.ID, g.person)
	if answer := l.h.toToken(g.client, redemption(g.client, g.code)); answer.status == http.StatusOK {
		l.t.Errorf("a used code gave tokens: %s", answer)
	}
	g.over = g.over || l.clients[g.client.ID].usable()
	return true
}

// replayRefresh sends a refresh token that is not the latest. The one before it gets the same successor
// for half a minute; everything else ends the grant.
func (l *life) replayRefresh() bool {
	l.t.Helper()
	g := l.someGrant(func(g *modelGrant) bool { return len(g.refreshes) > 1 })
	if g == nil {
		return false
	}
	i := l.random.IntN(len(g.refreshes) - 1)
	alive := !l.dead(g) && l.inTime(g) && l.clients[g.client.ID].usable()
	repeats := i == len(g.refreshes)-2 && l.now().Before(g.rotated.Add(30*time.Second))
	l.tell("%s sends refresh token %d of %d of %s", g.client.ID, i+1, len(g.refreshes), g.person)
	answer := l.h.toToken(g.client, refreshing(g.client, g.refreshes[i]))
	switch {
	case alive && repeats:
		if answer.status == http.StatusOK && answer.member(l.t, "refresh_token") != g.refresh() {
			l.t.Error("a repeat gave another refresh token")
		}
	case answer.status == http.StatusOK:
		l.t.Errorf("an old refresh token gave tokens: %s", answer)
	default:
		g.over = g.over || alive
	}
	return true
}

func (l *life) revokeRefresh() bool {
	l.t.Helper()
	g := l.someGrant(func(g *modelGrant) bool { return g.redeemed })
	if g == nil || !l.clients[g.client.ID].usable() {
		return false
	}
	l.tell("%s revokes a refresh token of %s", g.client.ID, g.person)
	if answer := l.h.revoke(g.client, g.refresh()); answer.status != http.StatusOK {
		l.t.Errorf("revoke: %s", answer)
	}
	g.over = true
	return true
}

// revokeAccess: a client that authenticates ends the grant, and another one the resource of the token.
func (l *life) revokeAccess() bool {
	l.t.Helper()
	if len(l.tokens) == 0 {
		return false
	}
	token := pick(l.random, l.tokens)
	g := token.grant
	if !l.clients[g.client.ID].usable() || !l.now().Before(token.ends) {
		return false
	}
	l.tell("%s revokes an access token of %s for %s", g.client.ID, g.person, token.at)
	if answer := l.h.revoke(g.client, token.text); answer.status != http.StatusOK {
		l.t.Errorf("revoke: %s", answer)
	}
	g.ended[token.at] = true
	g.over = g.over || g.client.secret != "" || len(g.ended) == len(g.allowed)
	return true
}

// stranger: a client uses a code or token of another one, and nothing changes.
func (l *life) stranger() bool {
	l.t.Helper()
	c, client := l.someClient()
	g := l.someGrant(func(g *modelGrant) bool { return g.client.ID != c.ID })
	if g == nil || !client.usable() {
		return false
	}
	l.tell("%s tries what %s has", c.ID, g.client.ID)
	values := redemption(c, g.code)
	if g.redeemed && l.random.IntN(2) == 0 {
		values = refreshing(c, g.refresh())
		l.h.revoke(c, g.refresh())
	}
	if answer := l.h.toToken(c, values); answer.status == http.StatusOK {
		l.t.Errorf("a stranger got tokens: %s", answer)
	}
	for _, token := range l.tokens {
		if token.grant == g {
			l.h.revoke(c, token.text)
		}
	}
	return true
}
