package cli

import (
	"net"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/prom"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/serve"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/wire"
)

func (s *session) serve() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the service: intake on all routes, outcomes, health, metrics",
		Long: `Takes letters in on all routes, settles the outcomes of what was sent, judges
records anew when that is due, and lets closed ones expire. It answers /healthz
(the process lives), /readyz (it can do its work) and /metrics (Prometheus).

Any number of instances may run. On SIGTERM it stops receiving, finishes the
letters in hand, and ends within half a minute. It never sends: that is
` + "`dlqbridge redrive run`" + `, on demand.`,
		Example: `  dlqbridge serve
  dlqbridge serve --listen 0.0.0.0:9464 --log-format json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			flags := map[string]string{}
			if listen != "" {
				flags["listen"] = listen
			}
			c, err := s.config(flags)
			if err != nil {
				return err
			}
			if _, err := s.someRoutes(nil); err != nil {
				return err
			}
			names := make([]string, len(c.Routes))
			for i, r := range c.Routes {
				names[i] = r.Name
			}
			metrics := prom.New(prom.Options{Routes: names, Owners: owners(c), Version: s.p.Version})
			cloud, err := s.aws(cmd.Context())
			if err != nil {
				return err
			}
			log := s.log(c)
			b, err := wire.New(wire.Options{Config: c, AWS: wire.CountCalls(cloud, metrics.Call), Env: s.p.Env, PubSub: wire.CountRPCs(s.p.PubSub, metrics.Call), Now: s.p.Now, Log: log, Holder: s.holder()})
			if err != nil {
				return err
			}
			s.closeAtEnd(cmd.Context(), b)
			server := serve.New(serve.Options{Bridge: b, Metrics: metrics, Log: log, Listen: c.Listen, Listening: func(a net.Addr) {
				if s.p.Listening != nil {
					s.p.Listening(a)
				}
			}})
			return server.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "", "address of the doors (default 127.0.0.1:9464)")
	return cmd
}

// owners are those that configuration gives causes to.
func owners(c config.Config) []string {
	var out []string
	for _, cause := range dlqbridge.Causes() {
		if o := dlqbridge.Short(c.Causes[cause].Owner); o != "" && !slices.Contains(out, o) {
			out = append(out, o)
		}
	}
	return out
}
