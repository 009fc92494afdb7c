@group(0) @binding(1) var<storage, read_write> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 2>, static_meta: array<u32, 2> }
@group(0) @binding(2) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn attention_table(@builtin(workgroup_id) v97: vec3<u32>, @builtin(num_workgroups) v99: vec3<u32>, @builtin(local_invocation_index) v106: u32) {
let v127 = &v5;
let v128 = &v1;
let v9 = info_var.scalars_usize[0];
let v10 = info_var.scalars_usize[1];
let v98 = v97[2];
let v29 = u32(v98);
let v100 = v99[1];
let v31 = u32(v100);
let v32 = v29 * v31;
let v101 = v99[0];
let v34 = u32(v101);
let v35 = v32 * v34;
let v102 = v97[1];
let v37 = u32(v102);
let v40 = v37 * v34;
let v41 = v35 + v40;
let v104 = v97[0];
let v43 = u32(v104);
let v44 = v41 + v43;
let v124 = u32(64);
let v47 = v44 * v124;
let v107 = v106;
let v49 = u32(v107);
let v50 = v47 + v49;
let v12 = v50 < v10;
if v12 {
let v17 = &(*v128)[v50];
let v18 = *v17;
let v20 = v9 + v50;
let v24 = &(*v127)[v20];
*v24 = v18;

}
return;

}
