package reconcile

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"
)

// notPublic are the special-purpose blocks that net/netip has no word for,
// from IANA's special-purpose address registries.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),       // this network
	netip.MustParsePrefix("100.64.0.0/10"),   // carrier-grade NAT, cloud-internal services
	netip.MustParsePrefix("192.0.0.0/24"),    // protocol assignments
	netip.MustParsePrefix("192.0.2.0/24"),    // documentation
	netip.MustParsePrefix("192.88.99.0/24"),  // old relays
	netip.MustParsePrefix("198.18.0.0/15"),   // benchmarks
	netip.MustParsePrefix("198.51.100.0/24"), // documentation
	netip.MustParsePrefix("203.0.113.0/24"),  // documentation
	netip.MustParsePrefix("240.0.0.0/4"),     // reserved, broadcast
	netip.MustParsePrefix("::/96"),           // IPv4-compatible
	netip.MustParsePrefix("64:ff9b::/96"),    // NAT64: any IPv4 address inside
	netip.MustParsePrefix("64:ff9b:1::/48"),  // local NAT64
	netip.MustParsePrefix("100::/64"),        // discard
	netip.MustParsePrefix("2001::/23"),       // Teredo and other assignments
	netip.MustParsePrefix("2001:db8::/32"),   // documentation
	netip.MustParsePrefix("2002::/16"),       // 6to4: any IPv4 address inside
	netip.MustParsePrefix("3fff::/20"),       // documentation
	netip.MustParsePrefix("5f00::/16"),       // segment routing
	netip.MustParsePrefix("fec0::/10"),       // old site-local
}

// public says whether an address is one that the whole internet can reach.
func public(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsGlobalUnicast() && !a.IsPrivate() && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !a.IsMulticast() &&
		!slices.ContainsFunc(notPublic, func(p netip.Prefix) bool { return p.Contains(a) })
}

// refusedError is an address that may not be reached.
type refusedError struct{ why string }

func (e *refusedError) Error() string { return e.why }

// guard decides about addresses as they are dialled, so after all resolving.
type guard struct {
	allow []netip.Prefix
	// listedOnly: without TLS, not even public ones.
	listedOnly bool
}

// control has the signature of net.Dialer.Control.
func (g guard) control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return &refusedError{"an address that cannot be read is not dialled"}
	}
	a := at.Addr().WithZone("").Unmap()
	if slices.ContainsFunc(g.allow, func(p netip.Prefix) bool { return p.Contains(a) }) {
		return nil
	}
	switch {
	case !public(a):
		return &refusedError{fmt.Sprintf("the host's address %s is not public and not in allow_addresses", a)}
	case g.listedOnly:
		return &refusedError{fmt.Sprintf("without TLS only addresses in allow_addresses are asked, and %s is not there", a)}
	}
	return nil
}
