@group(0) @binding(0) var<storage, read_write> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 2>, static_meta: array<u32, 2> }
@group(0) @binding(1) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn attention_sequences(@builtin(workgroup_id) v126: vec3<u32>, @builtin(num_workgroups) v128: vec3<u32>, @builtin(local_invocation_index) v135: u32) {
let v165 = &v1;
let v5 = info_var.scalars_usize[0];
let v6 = info_var.scalars_usize[1];
let v127 = v126[2];
let v35 = u32(v127);
let v129 = v128[1];
let v37 = u32(v129);
let v38 = v35 * v37;
let v130 = v128[0];
let v40 = u32(v130);
let v41 = v38 * v40;
let v131 = v126[1];
let v43 = u32(v131);
let v46 = v43 * v40;
let v47 = v41 + v46;
let v133 = v126[0];
let v49 = u32(v133);
let v50 = v47 + v49;
let v161 = u32(64);
let v53 = v50 * v161;
let v136 = v135;
let v55 = u32(v136);
let v56 = v53 + v55;
let v8 = v56 < v5;
if v8 {
let v10 = v56 / v6;
let v11 = v10 * v6;
let v12 = u32(v11);
let v14 = u32(2);
let v15 = v14 * v56;
let v19 = &(*v165)[v15];
*v19 = v12;
let v20 = v11 + v6;
let v21 = min(v20, v5);
let v22 = u32(v21);
let v26 = u32(1);
let v27 = v15 + v26;
let v31 = &(*v165)[v27];
*v31 = v22;

}
return;

}
