// Schema-only stand-in for hashicorp/aws: serves a schema JSON (env FAKE_AWS_SCHEMA) so that a real
// engine can validate, plan, test and apply a module. Makes no network call but the loopback plugin socket.
// What AWS would compute is made up: where a name decides an ARN or a URL, the made-up one is what AWS would give.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"

	p "github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"
	t "github.com/hashicorp/terraform-plugin-go/tftypes"
)

type jAttr struct {
	Type                         any
	Required, Optional, Computed bool
}
type jBlock struct {
	Attributes map[string]jAttr
	BlockTypes map[string]struct {
		Mode  string `json:"nesting_mode"`
		Min   int64  `json:"min_items"`
		Max   int64  `json:"max_items"`
		Block jBlock
	} `json:"block_types"`
}
type jSchema struct{ Block jBlock }
type jAll struct {
	Provider jSchema
	R        map[string]jSchema `json:"resource_schemas"`
	D        map[string]jSchema `json:"data_source_schemas"`
}

func typ(v any) t.Type {
	switch x := v.(type) {
	case string:
		switch x {
		case "string":
			return t.String
		case "number":
			return t.Number
		case "bool":
			return t.Bool
		}
	case []any:
		e := typ(x[1])
		switch x[0] {
		case "list":
			return t.List{ElementType: e}
		case "set":
			return t.Set{ElementType: e}
		case "map":
			return t.Map{ElementType: e}
		}
	}
	return t.DynamicPseudoType
}

func keys[V any](m map[string]V) []string {
	var k []string
	for n := range m {
		k = append(k, n)
	}
	sort.Strings(k)
	return k
}

func (b jBlock) conv() *p.SchemaBlock {
	o := &p.SchemaBlock{}
	for _, n := range keys(b.Attributes) {
		a := b.Attributes[n]
		o.Attributes = append(o.Attributes, &p.SchemaAttribute{Name: n, Type: typ(a.Type), Required: a.Required, Optional: a.Optional, Computed: a.Computed})
	}
	modes := map[string]p.SchemaNestedBlockNestingMode{"list": p.SchemaNestedBlockNestingModeList, "set": p.SchemaNestedBlockNestingModeSet, "single": p.SchemaNestedBlockNestingModeSingle}
	for _, n := range keys(b.BlockTypes) {
		x := b.BlockTypes[n]
		o.BlockTypes = append(o.BlockTypes, &p.SchemaNestedBlock{TypeName: n, Nesting: modes[x.Mode], MinItems: x.Min, MaxItems: x.Max, Block: x.Block.conv()})
	}
	return o
}

type srv struct {
	p.ProviderServer // anything not written below panics
	all              jAll
	r, d             map[string]*p.Schema
	prov             *p.Schema
	n                int
	lock             sync.Mutex // the engine applies several at once
}

func (s *srv) GetMetadata(context.Context, *p.GetMetadataRequest) (*p.GetMetadataResponse, error) {
	return &p.GetMetadataResponse{}, nil
}
func (s *srv) GetProviderSchema(context.Context, *p.GetProviderSchemaRequest) (*p.GetProviderSchemaResponse, error) {
	return &p.GetProviderSchemaResponse{Provider: s.prov, ResourceSchemas: s.r, DataSourceSchemas: s.d, ProviderMeta: &p.Schema{Block: &p.SchemaBlock{}}}, nil
}
func (s *srv) GetResourceIdentitySchemas(context.Context, *p.GetResourceIdentitySchemasRequest) (*p.GetResourceIdentitySchemasResponse, error) {
	return &p.GetResourceIdentitySchemasResponse{}, nil
}
func (s *srv) ValidateProviderConfig(_ context.Context, q *p.ValidateProviderConfigRequest) (*p.ValidateProviderConfigResponse, error) {
	return &p.ValidateProviderConfigResponse{PreparedConfig: q.Config}, nil
}
func (s *srv) ConfigureProvider(context.Context, *p.ConfigureProviderRequest) (*p.ConfigureProviderResponse, error) {
	return &p.ConfigureProviderResponse{}, nil
}
func (s *srv) StopProvider(context.Context, *p.StopProviderRequest) (*p.StopProviderResponse, error) {
	return &p.StopProviderResponse{}, nil
}
func (s *srv) ValidateResourceConfig(context.Context, *p.ValidateResourceConfigRequest) (*p.ValidateResourceConfigResponse, error) {
	return &p.ValidateResourceConfigResponse{}, nil
}
func (s *srv) ValidateDataResourceConfig(context.Context, *p.ValidateDataResourceConfigRequest) (*p.ValidateDataResourceConfigResponse, error) {
	return &p.ValidateDataResourceConfigResponse{}, nil
}
func (s *srv) GetFunctions(context.Context, *p.GetFunctionsRequest) (*p.GetFunctionsResponse, error) {
	return &p.GetFunctionsResponse{}, nil
}
func (s *srv) UpgradeResourceState(_ context.Context, q *p.UpgradeResourceStateRequest) (*p.UpgradeResourceStateResponse, error) {
	v, err := q.RawState.Unmarshal(s.r[q.TypeName].ValueType())
	if err != nil {
		return nil, err
	}
	dv, err := p.NewDynamicValue(s.r[q.TypeName].ValueType(), v)
	return &p.UpgradeResourceStateResponse{UpgradedState: &dv}, err
}
func (s *srv) ReadResource(_ context.Context, q *p.ReadResourceRequest) (*p.ReadResourceResponse, error) {
	return &p.ReadResourceResponse{NewState: q.CurrentState, Private: q.Private}, nil
}

// each applies f to every top-level attribute of v, in the order of their names; f also sees all of them.
func each(v t.Value, f func(name string, v t.Value, all map[string]t.Value) t.Value) (t.Value, error) {
	m := map[string]t.Value{}
	if err := v.As(&m); err != nil {
		return v, err
	}
	for _, k := range keys(m) {
		m[k] = f(k, m[k], m)
	}
	return t.NewValue(v.Type(), m), nil
}
func (s *srv) PlanResourceChange(_ context.Context, q *p.PlanResourceChangeRequest) (*p.PlanResourceChangeResponse, error) {
	ty := s.r[q.TypeName].ValueType()
	v, err := q.ProposedNewState.Unmarshal(ty)
	if err != nil || v.IsNull() {
		return &p.PlanResourceChangeResponse{PlannedState: q.ProposedNewState}, err
	}
	prior, err := q.PriorState.Unmarshal(ty)
	if err != nil {
		return nil, err
	}
	isNew := prior.IsNull() // what AWS once computed stays
	a := s.all.R[q.TypeName].Block.Attributes
	v, err = each(v, func(n string, x t.Value, all map[string]t.Value) t.Value {
		if isNew && a[n].Computed && x.IsNull() && !a[n].Required {
			return t.NewValue(x.Type(), t.UnknownValue)
		}
		return x
	})
	if err != nil {
		return nil, err
	}
	dv, err := p.NewDynamicValue(ty, v)
	return &p.PlanResourceChangeResponse{PlannedState: &dv}, err
}

const account, region = "123456789012", "us-east-1"

// By type: the ARN that AWS gives, with the attribute that %s stands for.
var arns = map[string][2]string{
	"aws_sqs_queue":             {"arn:aws:sqs:" + region + ":" + account + ":%s", "name"},
	"aws_sns_topic":             {"arn:aws:sns:" + region + ":" + account + ":%s", "name"},
	"aws_cloudwatch_event_rule": {"arn:aws:events:" + region + ":" + account + ":rule/%s", "name"},
	"aws_cloudwatch_log_group":  {"arn:aws:logs:" + region + ":" + account + ":log-group:%s", "name"},
	"aws_iam_role":              {"arn:aws:iam::" + account + ":role/%s", "name"},
	"aws_iam_instance_profile":  {"arn:aws:iam::" + account + ":instance-profile/%s", "name"},
	"aws_ssm_parameter":         {"arn:aws:ssm:" + region + ":" + account + ":parameter%s", "name"},
	"aws_s3_bucket":             {"arn:aws:s3:::%s", "bucket"},
}

// By type: how its ids begin, where they are not its name.
var ids = map[string]string{
	"aws_vpc": "vpc", "aws_subnet": "subnet", "aws_security_group": "sg", "aws_default_security_group": "sg",
	"aws_instance": "i", "aws_ebs_volume": "vol", "aws_route_table": "rtb", "aws_nat_gateway": "nat",
	"aws_internet_gateway": "igw", "aws_vpc_endpoint": "vpce", "aws_eip": "eipalloc",
	"aws_vpc_security_group_ingress_rule": "sgr", "aws_vpc_security_group_egress_rule": "sgr",
}

// What every data source says about where we are.
var here = map[string]string{
	"account_id": account, "owner_id": account, "region": region, "partition": "aws", "dns_suffix": "amazonaws.com",
	"json": "{}", "minified_json": "{}",
}

// text makes up attribute n of an object of type typ whose known attributes are all.
func (s *srv) text(typ, n string, all map[string]t.Value) string {
	known := func(name string) (v string) {
		if x, ok := all[name]; ok && x.IsKnown() && !x.IsNull() && x.Type().Is(t.String) {
			_ = x.As(&v)
		}
		return v
	}
	arn, hasArn := arns[typ]
	switch {
	case (n == "arn" || n == "id" && typ == "aws_sns_topic") && hasArn && known(arn[1]) != "":
		return fmt.Sprintf(arn[0], known(arn[1]))
	case strings.HasSuffix(n, "arn"):
		return fmt.Sprintf("arn:aws:fake:%s:%s:%s/%d", region, account, typ, s.n)
	case typ == "aws_sqs_queue" && (n == "id" || n == "url"):
		return fmt.Sprintf("https://sqs.%s.amazonaws.com/%s/%s", region, account, known("name"))
	case n == "id" && typ == "aws_region":
		return region
	case n == "id" && ids[typ] != "":
		return fmt.Sprintf("%s-%017x", ids[typ], s.n)
	case n == "id" && hasArn:
		return known(arn[1])
	case here[n] != "":
		return here[n]
	}
	return fmt.Sprintf("fake-%s-%d", n, s.n)
}

func (s *srv) fake(typ, n string, x t.Value, all map[string]t.Value) t.Value {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.n++
	switch ty := x.Type(); {
	case ty.Is(t.String):
		return t.NewValue(ty, s.text(typ, n, all))
	case ty.Is(t.Number):
		return t.NewValue(ty, 1)
	case ty.Is(t.Bool):
		return t.NewValue(ty, false)
	case ty.Is(t.DynamicPseudoType):
		return t.NewValue(ty, nil)
	case ty.Is(t.Map{}):
		return t.NewValue(ty, map[string]t.Value{})
	default:
		return t.NewValue(ty, []t.Value{})
	}
}
func (s *srv) ApplyResourceChange(_ context.Context, q *p.ApplyResourceChangeRequest) (*p.ApplyResourceChangeResponse, error) {
	ty := s.r[q.TypeName].ValueType()
	v, err := q.PlannedState.Unmarshal(ty)
	if err != nil || v.IsNull() {
		return &p.ApplyResourceChangeResponse{NewState: q.PlannedState}, err
	}
	v, err = each(v, func(n string, x t.Value, all map[string]t.Value) t.Value {
		if !x.IsKnown() {
			return s.fake(q.TypeName, n, x, all)
		}
		return x
	})
	if err != nil {
		return nil, err
	}
	dv, err := p.NewDynamicValue(ty, v)
	return &p.ApplyResourceChangeResponse{NewState: &dv}, err
}
func (s *srv) ReadDataSource(_ context.Context, q *p.ReadDataSourceRequest) (*p.ReadDataSourceResponse, error) {
	ty := s.d[q.TypeName].ValueType()
	v, err := q.Config.Unmarshal(ty)
	if err != nil {
		return nil, err
	}
	a := s.all.D[q.TypeName].Block.Attributes
	v, err = each(v, func(n string, x t.Value, all map[string]t.Value) t.Value {
		if a[n].Computed && x.IsNull() {
			return s.fake(q.TypeName, n, x, all)
		}
		return x
	})
	if err != nil {
		return nil, err
	}
	dv, err := p.NewDynamicValue(ty, v)
	return &p.ReadDataSourceResponse{State: &dv}, err
}

func main() {
	raw, err := os.ReadFile(os.Getenv("FAKE_AWS_SCHEMA"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	s := &srv{r: map[string]*p.Schema{}, d: map[string]*p.Schema{}}
	if err := json.Unmarshal(raw, &s.all); err != nil {
		panic(err)
	}
	s.prov = &p.Schema{Block: s.all.Provider.Block.conv()}
	for k, v := range s.all.R {
		s.r[k] = &p.Schema{Block: v.Block.conv()}
	}
	for k, v := range s.all.D {
		s.d[k] = &p.Schema{Block: v.Block.conv()}
	}
	if err := tf6server.Serve("registry.terraform.io/hashicorp/aws", func() p.ProviderServer { return s }); err != nil {
		panic(err)
	}
}
