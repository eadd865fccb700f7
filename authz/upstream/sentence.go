package upstream

import (
	"slices"
	"strings"
)

// sentences are for people, with %s for the provider's name.
var sentences = map[Reason]string{
	ReasonDown:        "%s cannot be reached right now. Try again in a few minutes.",
	ReasonSlow:        "%s takes too long to answer. Try again in a few minutes.",
	ReasonBusy:        "Too many people are signing in with %s right now. Try again in a minute.",
	ReasonNonsense:    "%s answered something that cannot be understood. Try again; if it happens again, tell the operator of this page.",
	ReasonIssuer:      "The answer did not come from the provider that it should have come from, %s. Nobody was signed in.",
	ReasonCallback:    "The answer that came back from %s cannot be used. Start the sign-in again.",
	ReasonCode:        "This sign-in with %s was used already or took too long. Start the sign-in again.",
	ReasonToken:       "%s sent a proof of who you are that does not hold. Nobody was signed in.",
	ReasonExpired:     "%s sent a proof of who you are that is out of date. Perhaps a clock is wrong. Nobody was signed in.",
	ReasonNonce:       "The answer of %s belongs to another sign-in. Start the sign-in again.",
	ReasonAge:         "You are asked to sign in at %s again, and it does not say that you just did.",
	ReasonPerson:      "%s does not say who you are. Nobody was signed in.",
	ReasonDenied:      "%s did not sign you in.",
	ReasonGroups:      "%s does not tell all of your groups, and they decide whether you may come in. The operator must change the settings.",
	ReasonNotAllowed:  "You signed in at %s, but your account there may not come in here. Ask the operator of this page, or use another account.",
	ReasonClient:      "%s does not accept this server. The operator must look at its client ID and secret.",
	ReasonSettings:    "%s refused the request of this server. The operator must look at the settings.",
	ReasonUnsupported: "%s lacks something that this server needs. The operator must look at the settings.",
	ReasonGone:        "%s does not know your sign-in any more. Sign in again.",
	ReasonInterrupted: "The sign-in with %s was interrupted. Start it again.",
	ReasonLogoutToken: "The logout that was sent in the name of %s does not hold.",
	ReasonNoLogout:    "%s sends no logouts.",
	ReasonNoRecheck:   "%s gave nothing to ask again with. Sign in again.",
}

// Reasons returns all reasons, for a catalogue that has a sentence for each.
func Reasons() (all []Reason) {
	for reason := range sentences {
		all = append(all, reason)
	}
	slices.Sort(all)
	return all
}

// Sentence says in English, for people, what happened, and what to do.
func (e *Error) Sentence() string {
	return strings.ReplaceAll(sentences[e.Reason], "%s", e.Title)
}
