@group(0) @binding(3) var<storage, read_write> v13: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> v9: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<f32>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(4) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn route_backward_probs_sigmoid(@builtin(workgroup_id) v112: vec3<u32>, @builtin(num_workgroups) v114: vec3<u32>, @builtin(local_invocation_index) v121: u32) {
let v133 = &v13;
let v134 = &v9;
let v135 = &v5;
let v136 = &v1;
let v17 = info_var.scalars_usize[0];
let v18 = info_var.scalars_usize[1];
let v113 = v112[2];
let v67 = u32(v113);
let v115 = v114[1];
let v69 = u32(v115);
let v70 = v67 * v69;
let v116 = v114[0];
let v72 = u32(v116);
let v73 = v70 * v72;
let v117 = v112[1];
let v75 = u32(v117);
let v78 = v75 * v72;
let v79 = v73 + v78;
let v119 = v112[0];
let v81 = u32(v119);
let v82 = v79 + v81;
let v131 = u32(64);
let v85 = v82 * v131;
let v122 = v121;
let v87 = u32(v122);
let v88 = v85 + v87;
let v20 = v88 < v17;
if v20 {
let v22 = v88 * v18;
let v23 = v22 + v18;
let v24 = u32(1);
for(var v25: u32 = v22; v25 < v23; v25 += v24) {
let v30 = &(*v136)[v25];
let v31 = *v30;
let v32 = f32(1.0);
let v33 = vec4<f32>(v32);
let v34 = abs(v31);
let v35 = -v34;
let v36 = exp(v35);
let v37 = v33 + v36;
let v39 = v37 * v37;
let v40 = v36 / v39;
let v44 = &(*v135)[v25];
let v45 = *v44;
let v49 = &(*v134)[v25];
let v50 = *v49;
let v51 = v40 * v50;
let v52 = f32(0.0);
let v53 = vec4<f32>(v52);
let v54 = v45 == v53;
let v55 = select(v51, v53, v54);
let v59 = &(*v133)[v25];
*v59 = v55;

}

}
return;

}
